package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/otlp"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/storage"
)

// Metrics holds the process's metrics and the registry that /metrics serves. Every label has a
// bounded number of values; for example, it names a route, method, status code, or ledger.
type Metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	underWay *prometheus.GaugeVec
	duration *prometheus.HistogramVec
	appended *prometheus.HistogramVec
	events   *prometheus.HistogramVec
	commit   *prometheus.HistogramVec
	load     limits.Metrics

	telemetry otlp.Metrics

	mu     sync.RWMutex // guards routes
	routes map[routeKey]*routeSeries
}

// NewMetrics creates the process's metrics and registers them with registry.
func NewMetrics(registry *prometheus.Registry) *Metrics {
	m := &Metrics{
		registry: registry,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colophon_http_requests_total",
			Help: "Requests answered, by route, method, and status; statuses of 400 and above are refusals or failures.",
		}, []string{"route", "method", "status"}),
		underWay: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "colophon_http_requests_in_progress",
			Help: "Requests in progress, by route and method.",
		}, []string{"route", "method"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_http_request_duration_seconds",
			Help:    "Time from the first byte of a request to the last of its response; for writes it includes the commit.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"route", "method"}),
		appended: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_append_duration_seconds",
			Help:    "Time from handing a single record to the sequencer to its durable acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}, []string{"ledger"}),
		events: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_commit_events",
			Help:    "Events per commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 15),
		}, []string{"ledger"}),
		commit: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_commit_duration_seconds",
			Help:    "Time to make a commit durable, including its sync.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}, []string{"ledger"}),
		load:   limits.NewMetrics(),
		routes: make(map[routeKey]*routeSeries),

		telemetry: otlp.NewMetrics(),
	}
	registry.MustRegister(m.requests, m.underWay, m.duration, m.appended, m.events, m.commit, m.load.Refusals, m.load.BatchLines, m.telemetry.Items,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observeCommit records the size and duration of a commit.
func (m *Metrics) observeCommit(name string, c ledger.Commit) {
	m.events.WithLabelValues(name).Observe(float64(c.EventCount))
	m.commit.WithLabelValues(name).Observe(c.Duration.Seconds())
}

// Handler returns the handler for /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: limits.MaxScrapes})
}

// metrics handles /metrics. Each request holds a slot until its response has been sent. A caller
// gets at most half of the slots that others leave free, so that slow callers cannot block others.
func (s *Server) metrics(c *call.Call) error {
	who := c.LimitKey()
	if !s.shared.Limiter.ScrapeSlots.TakeShare(who) {
		return limits.NewRejectedError(limits.ReasonAnswerMemory, http.StatusServiceUnavailable, time.Second,
			"too many metrics requests are in progress, from this caller or in total (limit %d); try again later", limits.MaxScrapes)
	}
	defer s.shared.Limiter.ScrapeSlots.Release(who)
	s.config.Metrics.Handler().ServeHTTP(c.Response(), c.Request())
	return nil
}

// watch registers the collectors that read the ledgers and the index on every scrape.
func (m *Metrics) watch(host *ledger.Host, store *index.Store) {
	m.registry.MustRegister(hostCollector{host, store}, counters.NewCollector(store.Followers))
}

// Register adds a collector to those that /metrics serves.
func (m *Metrics) Register(c prometheus.Collector) { m.registry.MustRegister(c) }

var (
	treeSize = prometheus.NewDesc("colophon_ledger_tree_size", "Events in the ledger.", []string{"ledger"}, nil)
	queue    = prometheus.NewDesc("colophon_queue_depth", "Records that are waiting for the sequencer.", []string{"ledger"}, nil)
	lag      = prometheus.NewDesc("colophon_index_lag_events", "Events in the ledger that its index has not folded yet.", []string{"ledger"}, nil)
	age      = prometheus.NewDesc("colophon_checkpoint_age_seconds", "Time since the last checkpoint was signed; it also grows while the ledger is idle.", []string{"ledger"}, nil)
	running  = prometheus.NewDesc("colophon_index_running", "1 while the ledger's index follows its log, 0 after it has stopped because of an error.", []string{"ledger"}, nil)
	rebuilds = prometheus.NewDesc("colophon_index_rebuilds_total", "Number of times since the process started that the index was found damaged and replaced with an empty one.", nil, nil)
	writable = prometheus.NewDesc("colophon_storage_writable", "1 while the ledger accepts writes, 0 while free disk space is below --min-free-space or the ledger cannot sign, for example because its signing key is missing.", []string{"ledger"}, nil)
)

// hostCollector reads sizes and ages from the ledgers on every scrape.
type hostCollector struct {
	host  *ledger.Host
	index *index.Store
}

// Describe implements prometheus.Collector.
func (h hostCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{treeSize, queue, lag, age, running, rebuilds, writable} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (h hostCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(rebuilds, prometheus.CounterValue, float64(h.index.RebuildCount()))
	for _, l := range h.host.Ledgers() {
		gauge := func(d *prometheus.Desc, value float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, l.Name())
		}
		head, follower := l.Head(), h.index.Follower(l.Name())
		gauge(treeSize, float64(head.Size))
		gauge(queue, float64(l.QueueLength()))
		gauge(age, time.Since(time.UnixMicro(head.TimeMicros)).Seconds())
		// The index may already be ahead of the head, which was read earlier.
		gauge(lag, float64(head.Size-min(head.Size, follower.Size())))
		gauge(running, gaugeOf(follower.Err() == nil))
		if err := l.CheckWritable(context.Background()); !errors.Is(err, storage.ErrLeaseNotHeld) { // otherwise the server that writes the ledger exports this metric
			gauge(writable, gaugeOf(err == nil))
		}
	}
}

func gaugeOf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// routeSeries holds the metrics of one route and method.
type routeSeries struct {
	requests *prometheus.CounterVec // by status
	underWay prometheus.Gauge
	duration prometheus.Observer
}

type routeKey struct{ route, method string }

// of returns the metrics of a route and method. All unknown routes share one series, and so do all
// unknown methods, so that clients cannot create new series.
func (m *Metrics) of(route, method string) *routeSeries {
	key := routeKey{route, method}
	if route == "" {
		key.route = "unknown"
	}
	if !knownMethod(method) {
		key.method = "other"
	}
	m.mu.RLock()
	series := m.routes[key]
	m.mu.RUnlock()
	if series == nil {
		series = m.addRoute(key)
	}
	return series
}

func (m *Metrics) addRoute(key routeKey) *routeSeries {
	labels := prometheus.Labels{"route": key.route, "method": key.method}
	series := &routeSeries{requests: m.requests.MustCurryWith(labels), underWay: m.underWay.With(labels), duration: m.duration.With(labels)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.routes[key] = series // a concurrent call might have stored an equal series
	return series
}

func knownMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return true
	}
	return false
}

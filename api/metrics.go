package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"colophon/ledger"
	"colophon/ledger/index"
)

// Metrics is the process's own family of metrics (4.5) and the registry that
// /metrics shows. Labels are bounded: routes, methods, status codes, ledgers.
type Metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	appended *prometheus.HistogramVec
	events   *prometheus.HistogramVec
	commit   *prometheus.HistogramVec
}

// NewMetrics registers the process's metrics.
func NewMetrics(registry *prometheus.Registry) *Metrics {
	m := &Metrics{
		registry: registry,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colophon_http_requests_total",
			Help: "Requests answered, by route, method and status; refusals are those of 400 and above.",
		}, []string{"route", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_http_request_duration_seconds",
			Help:    "Time from the first byte of a request to the last of its answer; for writes it includes the commit.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"route", "method"}),
		appended: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_append_duration_seconds",
			Help:    "Time from handing a single record to the sequencer to its durable acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}, []string{"ledger"}),
		events: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_commit_events",
			Help:    "Events a commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 15),
		}, []string{"ledger"}),
		commit: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "colophon_commit_duration_seconds",
			Help:    "Time to make a commit durable, its sync included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}, []string{"ledger"}),
	}
	registry.MustRegister(m.requests, m.duration, m.appended, m.events, m.commit,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observeCommit notes a commit of a ledger.
func (m *Metrics) observeCommit(name string, c ledger.Commit) {
	m.events.WithLabelValues(name).Observe(float64(c.Events))
	m.commit.WithLabelValues(name).Observe(c.Duration.Seconds())
}

// Handler answers /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// watch adds what can be read off the ledgers and the index at any time.
func (m *Metrics) watch(host *ledger.Host, store *index.Store) {
	m.registry.MustRegister(hostCollector{host, store}, index.NewCollector(store.Followers))
}

// Register adds another collector.
func (m *Metrics) Register(c prometheus.Collector) { m.registry.MustRegister(c) }

var (
	treeSize = prometheus.NewDesc("colophon_ledger_tree_size", "Events in the ledger.", []string{"ledger"}, nil)
	queue    = prometheus.NewDesc("colophon_queue_depth", "Records that wait for the sequencer.", []string{"ledger"}, nil)
	lag      = prometheus.NewDesc("colophon_index_lag_events", "Events in the ledger that its index has not folded yet.", []string{"ledger"}, nil)
	age      = prometheus.NewDesc("colophon_checkpoint_age_seconds", "Time since the last checkpoint was signed.", []string{"ledger"}, nil)
)

// hostCollector reads sizes and ages off the ledgers.
type hostCollector struct {
	host  *ledger.Host
	index *index.Store
}

// Describe implements prometheus.Collector.
func (h hostCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- treeSize
	ch <- queue
	ch <- age
	ch <- lag
}

// Collect implements prometheus.Collector.
func (h hostCollector) Collect(ch chan<- prometheus.Metric) {
	for _, l := range h.host.Ledgers() {
		head := l.Head()
		ch <- prometheus.MustNewConstMetric(treeSize, prometheus.GaugeValue, float64(head.Size), l.Name())
		ch <- prometheus.MustNewConstMetric(queue, prometheus.GaugeValue, float64(l.Queue()), l.Name())
		ch <- prometheus.MustNewConstMetric(age, prometheus.GaugeValue, time.Since(time.UnixMicro(head.Time)).Seconds(), l.Name())
		// The index may have gone past the head that was read before it.
		behind := head.Size - min(head.Size, h.index.Follower(l.Name()).Size())
		ch <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, float64(behind), l.Name())
	}
}

// observe counts and times every request.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		// Deferred: an answer that fails half-way ends in a panic.
		defer func() {
			route, method := c.Path(), c.Request().Method
			if route == "" {
				route = "unknown"
			}
			if !knownMethod(method) {
				method = "other"
			}
			s.config.Metrics.requests.WithLabelValues(route, method, strconv.Itoa(c.Response().Status)).Inc()
			s.config.Metrics.duration.WithLabelValues(route, method).Observe(time.Since(start).Seconds())
		}()
		if err := next(c); err != nil {
			c.Error(err) // answers it, so that its status is known here
		}
		return nil
	}
}

func knownMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return true
	}
	return false
}

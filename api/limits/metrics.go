package limits

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts refusals and answered batch lines.
type Metrics struct {
	Refusals   *prometheus.CounterVec // refused requests and batch lines, by reason
	BatchLines *prometheus.CounterVec // answered batch lines, by HTTP status
}

// NewMetrics creates a series for every reason, so that Prometheus' rate() counts the first
// refusal.
func NewMetrics() Metrics {
	m := Metrics{
		Refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colophon_refusals_total",
			Help: "Requests and lines of batches that were refused, and clients that were disconnected, to protect the server, by reason.",
		}, []string{"reason"}),
		BatchLines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colophon_batch_lines_total",
			Help: "Lines of batches answered, by the status that each would have had as a separate request.",
		}, []string{"status"}),
	}
	for _, why := range RefusalReasons {
		m.Refusals.WithLabelValues(string(why))
	}
	return m
}

// CountRefusal counts a refusal unless reason is empty.
func (m Metrics) CountRefusal(reason RefusalReason) {
	if reason != "" {
		m.Refusals.WithLabelValues(string(reason)).Inc()
	}
}

// CountLines adds answered lines of batches to the counts, by HTTP status. lines maps each status
// to the number of lines that were answered with it.
func (m Metrics) CountLines(lines map[int]int) {
	for status, count := range lines {
		m.BatchLines.WithLabelValues(strconv.Itoa(status)).Add(float64(count))
	}
}

var (
	openConnections = prometheus.NewDesc("colophon_connections", "Open connections.", nil, nil)
	openBatches     = prometheus.NewDesc("colophon_batches", "Batches in progress.", nil, nil)
	openFollowers   = prometheus.NewDesc("colophon_followers", "Clients that follow a ledger's events live.", nil, nil)
	bodiesHeld      = prometheus.NewDesc("colophon_body_memory_bytes", "Bytes of memory for bodies of writes.", nil, nil)
	answersHeld     = prometheus.NewDesc("colophon_answer_memory_bytes", "Bytes of memory for responses until they are sent, and for bodies of requests that record nothing.", nil, nil)
	spooled         = prometheus.NewDesc("colophon_spool_bytes", "Bytes of unread results in temporary files.", nil, nil)
)

// Collector exports how many connections, batches, followers, and bytes are in use.
type Collector struct{ Limiter *Limiter }

// Describe implements prometheus.Collector.
func (l Collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, ch) }

// Collect implements prometheus.Collector.
func (l Collector) Collect(ch chan<- prometheus.Metric) {
	for d, value := range map[*prometheus.Desc]float64{
		openConnections: float64(l.Limiter.Connections.Open.Load()),
		openBatches:     float64(l.Limiter.BatchSlots.InUse()),
		openFollowers:   float64(l.Limiter.FollowerSlots.InUse()),
		bodiesHeld:      float64(l.Limiter.WriteMemory.BytesInUse()),
		answersHeld:     float64(l.Limiter.ReadMemory.BytesInUse()),
		spooled:         float64(l.Limiter.SpoolSpace.TakenBytes.Load()),
	} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
}

// MaxScrapes is the largest number of requests for metrics that are answered at the same time.
const MaxScrapes = 32

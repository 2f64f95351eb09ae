package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// loadMetrics is what the server says of its limits.
type loadMetrics struct {
	refused *prometheus.CounterVec
	lines   *prometheus.CounterVec
}

// newLoadMetrics has a series for every refusal, so that the first one is seen.
func newLoadMetrics() loadMetrics {
	m := loadMetrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colophon_refusals_total",
			Help: "Requests and lines of batches that were refused, and clients that were dropped, to protect the server, by reason.",
		}, []string{"reason"}),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colophon_batch_lines_total",
			Help: "Lines of batches answered, by the status that each would have had as a request of its own.",
		}, []string{"status"}),
	}
	for _, why := range refusals {
		m.refused.WithLabelValues(string(why))
	}
	return m
}

// refuse counts a refusal.
func (m loadMetrics) refuse(why refusal) { m.refused.WithLabelValues(string(why)).Inc() }

// problem counts a problem that is answered, if it is a refusal.
func (m loadMetrics) problem(p *problem) {
	if p.why != "" {
		m.refuse(p.why)
	}
}

// answered counts lines of batches, by status.
func (m loadMetrics) answered(lines map[int]int) {
	for status, count := range lines {
		m.lines.WithLabelValues(strconv.Itoa(status)).Add(float64(count))
	}
}

var (
	openConnections = prometheus.NewDesc("colophon_connections", "Connections that are open.", nil, nil)
	openBatches     = prometheus.NewDesc("colophon_batches", "Batches that are under way.", nil, nil)
	openFollowers   = prometheus.NewDesc("colophon_followers", "Clients that follow a ledger's events live.", nil, nil)
	bodiesHeld      = prometheus.NewDesc("colophon_body_memory_bytes", "Bytes that bodies of writes take.", nil, nil)
	answersHeld     = prometheus.NewDesc("colophon_answer_memory_bytes", "Bytes that answers take until they are sent, and bodies of requests that record nothing.", nil, nil)
	spooled         = prometheus.NewDesc("colophon_spool_bytes", "Bytes of temporary files with results that clients have not read.", nil, nil)
)

// loadCollector reads what is in use off the limits.
type loadCollector struct{ limits *bounds }

// Describe implements prometheus.Collector.
func (l loadCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, ch) }

// Collect implements prometheus.Collector.
func (l loadCollector) Collect(ch chan<- prometheus.Metric) {
	for d, value := range map[*prometheus.Desc]float64{
		openConnections: float64(l.limits.connections.open.Load()),
		openBatches:     float64(l.limits.batches.inUse()),
		openFollowers:   float64(l.limits.followers.inUse()),
		bodiesHeld:      float64(l.limits.writing.inUse()),
		answersHeld:     float64(l.limits.reading.inUse()),
		spooled:         float64(l.limits.spools.taken.Load()),
	} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
}

package index

import "github.com/prometheus/client_golang/prometheus"

// collector exports what followers have counted.
type collector struct {
	followers func() []*Follower
	counters  [metricCount]*prometheus.Desc
	size      *prometheus.Desc
}

// NewCollector exports the metrics of 4.5 that are derived from the log, of
// those followers that the function names at each scrape, one for each ledger.
// All numbers of one ledger belong to one size, which is exported with them.
func NewCollector(followers func() []*Follower) prometheus.Collector {
	c := &collector{
		followers: followers,
		size: prometheus.NewDesc("colophon_ledger_index_size",
			"Events of the log that the index covers; all other metrics derived from the log are as of this size.",
			[]string{"ledger"}, nil),
	}
	for i, m := range metrics {
		c.counters[i] = prometheus.NewDesc(m.name, m.help, append([]string{"ledger"}, m.labels...), nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.size
	for _, d := range c.counters {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(collected chan<- prometheus.Metric) {
	for _, f := range c.followers() {
		now := f.published.Load()
		collected <- prometheus.MustNewConstMetric(c.size, prometheus.GaugeValue, float64(now.size), f.name)
		for s, count := range now.counts() {
			kind := prometheus.CounterValue
			if s.metric.isGauge() {
				kind = prometheus.GaugeValue
			}
			values := append([]string{f.name}, s.labels[:len(metrics[s.metric].labels)]...)
			collected <- prometheus.MustNewConstMetric(c.counters[s.metric], kind, float64(count), values...)
		}
	}
}

package counters

import "github.com/prometheus/client_golang/prometheus"

type collector struct {
	sources  func(yield func(Source) bool)
	counters [metricCount]*prometheus.Desc
	size     *prometheus.Desc
}

// NewCollector returns a collector of the metrics that are derived from the log (spec: Metrics
// derived from the log). At each scrape, the collector calls followers, which returns one
// follower for each ledger. All values of a ledger describe the log at the same tree size, which
// the collector exports too.
func NewCollector[S Source](followers func() []S) prometheus.Collector {
	c := &collector{
		sources: func(yield func(Source) bool) {
			for _, f := range followers() {
				if !yield(f) {
					return
				}
			}
		},
		size: prometheus.NewDesc("colophon_ledger_index_size",
			"Events of the log that the index covers; all other metrics derived from the log are as of this size.",
			[]string{"ledger"}, nil),
	}
	for i, m := range Metrics {
		c.counters[i] = prometheus.NewDesc(m.Name, m.Help, append([]string{"ledger"}, m.Labels...), nil)
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
	for f := range c.sources {
		counted, size := f.Counts()
		collected <- prometheus.MustNewConstMetric(c.size, prometheus.GaugeValue, float64(size), f.Name())
		for s, count := range counted {
			kind := prometheus.CounterValue
			if s.Metric.IsGauge() {
				kind = prometheus.GaugeValue
			}
			values := append([]string{f.Name()}, s.Labels[:len(Metrics[s.Metric].Labels)]...)
			collected <- prometheus.MustNewConstMetric(c.counters[s.Metric], kind, float64(count), values...)
		}
	}
}

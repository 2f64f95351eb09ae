package publish

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	publishedSize  = prometheus.NewDesc("colophon_publish_tree_size", "Events in the published copy of the ledger; absent until the copy has been read.", []string{"ledger"}, nil)
	publishLag     = prometheus.NewDesc("colophon_publish_lag_events", "Events in the ledger that its published copy lacks.", []string{"ledger"}, nil)
	publishAge     = prometheus.NewDesc("colophon_publish_lag_seconds", "Time since the published copy last equaled the ledger's log; 0 while the two are equal.", []string{"ledger"}, nil)
	archivedBelow  = prometheus.NewDesc("colophon_archive_events", "Number of the ledger's first events that may be only in its published copy.", []string{"ledger"}, nil)
	archiveFailure = prometheus.NewDesc("colophon_archive_failures_total", "Failed steps of archiving old entries.", []string{"ledger"}, nil)
	publishFailure = prometheus.NewDesc("colophon_publish_failures_total", "Publications that failed, by reason.", []string{"ledger", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (p *Publisher) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{publishedSize, publishLag, publishAge, publishFailure, archivedBelow, archiveFailure} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Publisher) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	copies := p.copies
	p.mu.Unlock()
	for _, c := range copies {
		if c.active.Load() {
			c.collect(ch)
		}
	}
}

func (c *copier) collect(ch chan<- prometheus.Metric) {
	name, size := c.ledger.Name(), c.size.Load()
	head := c.ledger.Head().Size // read after size, so that head is not less than size
	if c.known.Load() {
		ch <- prometheus.MustNewConstMetric(publishedSize, prometheus.GaugeValue, float64(size), name)
	}
	ch <- prometheus.MustNewConstMetric(publishLag, prometheus.GaugeValue, float64(head-min(size, head)), name)
	var age time.Duration
	if since := c.behind.Load(); since != 0 {
		age = max(0, time.Since(time.Unix(0, since))) // the difference is negative if the clock was set back
	}
	ch <- prometheus.MustNewConstMetric(publishAge, prometheus.GaugeValue, age.Seconds(), name)
	if c.options.ArchiveOldEntries {
		ch <- prometheus.MustNewConstMetric(archivedBelow, prometheus.GaugeValue, float64(c.archivedBelow.Load()), name)
		ch <- prometheus.MustNewConstMetric(archiveFailure, prometheus.CounterValue, float64(c.archiveFailures.Load()), name)
	}
	for reason, text := range reasons {
		ch <- prometheus.MustNewConstMetric(publishFailure, prometheus.CounterValue, float64(c.failures[reason].Load()), name, text)
	}
}

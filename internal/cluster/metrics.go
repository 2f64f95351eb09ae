package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"colophon/ledger"
)

var (
	held    = prometheus.NewDesc("colophon_lease_held", "1 if this server writes the ledger, 0 if another server or no server does.", []string{"ledger"}, nil)
	epoch   = prometheus.NewDesc("colophon_lease_epoch", "Epoch of the ledger's head. It increases each time another server becomes the writer.", []string{"ledger"}, nil)
	changes = prometheus.NewDesc("colophon_lease_changes_total", "Changes of the ledger's epoch that this server has seen.", []string{"ledger"}, nil)
	lag     = prometheus.NewDesc("colophon_follower_lag_events", "Events of the ledger in the store that this server does not show yet.", []string{"ledger"}, nil)
)

// Describe implements prometheus.Collector.
func (c *Member) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{held, epoch, changes, lag} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Member) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.places {
		writes, behind := 0.0, p.Size
		if c.host.Status(name) == ledger.StatusWritable {
			writes = 1
		}
		if l, err := c.host.Ledger(name); err == nil {
			behind -= min(behind, l.Head().Size)
		}
		ch <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, writes, name)
		ch <- prometheus.MustNewConstMetric(epoch, prometheus.GaugeValue, float64(p.Epoch), name)
		ch <- prometheus.MustNewConstMetric(changes, prometheus.CounterValue, float64(p.changes), name)
		ch <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, float64(behind), name)
	}
}

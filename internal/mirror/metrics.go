package mirror

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons why a copy cannot be followed.
const (
	unavailable = iota // the copy cannot be read, or lacks an object
	damaged            // the objects of the copy contradict each other
	signature          // the checkpoint of the copy is not signed as required
	rollback           // the copy has fewer events than were verified before
	fork               // the copy does not extend the log that was verified before
)

// reasons lists the values of the label reason in the metrics.
var reasons = [...]string{unavailable: "unavailable", damaged: "damaged", signature: "signature", rollback: "rollback", fork: "fork"}

// reasonOf returns the reason of a refusal, or unavailable for any other error.
func reasonOf(err error) int {
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		return refused.reason
	}
	return unavailable
}

var (
	lagEvents = prometheus.NewDesc("colophon_follower_lag_events", "Events of the ledger in the store that this server does not show yet.", []string{"ledger"}, nil)
	lagAge    = prometheus.NewDesc("colophon_mirror_lag_seconds", "Time since this server last showed the newest state of the copy that it follows; absent until then.", []string{"ledger"}, nil)
	failing   = prometheus.NewDesc("colophon_mirror_failing", "1 for the reason why this server does not show the newest state of the copy that it follows, 0 for the other reasons.", []string{"ledger", "reason"}, nil)
	failures  = prometheus.NewDesc("colophon_mirror_failures_total", "Attempts to follow the copy that failed, by reason.", []string{"ledger", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Mirror) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lagEvents, lagAge, failing, failures} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Mirror) Collect(ch chan<- prometheus.Metric) {
	name, shown := m.options.Ledger, uint64(0)
	newest := m.newest.Load()
	if l, err := m.host.Ledger(name); err == nil {
		shown = l.Head().Size
	}
	ch <- prometheus.MustNewConstMetric(lagEvents, prometheus.GaugeValue, float64(newest-min(newest, shown)), name)
	if checked := m.checked.Load(); checked != 0 {
		ch <- prometheus.MustNewConstMetric(lagAge, prometheus.GaugeValue, max(0, time.Since(time.Unix(0, checked))).Seconds(), name)
	}
	err := m.state.Load().err
	for reason, text := range reasons {
		now := 0.0
		if err != nil && !errors.Is(err, errLoading) && reasonOf(err) == reason {
			now = 1
		}
		ch <- prometheus.MustNewConstMetric(failing, prometheus.GaugeValue, now, name, text)
		ch <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(m.failures[reason].Load()), name, text)
	}
}

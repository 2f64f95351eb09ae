package otlp

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts spans and log records.
type Metrics struct{ Items *prometheus.CounterVec }

// The values of the label outcome.
var outcomes = [...]string{"recorded", "replayed", "ignored", "rejected"}

// NewMetrics creates a series for every outcome, so that Prometheus' rate() counts the first one.
func NewMetrics() Metrics {
	m := Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colophon_otlp_items_total",
		Help: "What became of what exporters sent by OTLP: generations recorded, generations that the ledger had already (replayed), spans and log records that are no generations (ignored), and those that were rejected.",
	}, []string{"outcome"})}
	for _, outcome := range outcomes {
		m.Items.WithLabelValues(outcome)
	}
	return m
}

func (m Metrics) count(r *result) {
	for i, n := range [...]int{r.recorded, r.replayed, r.ignored, r.rejected} {
		m.Items.WithLabelValues(outcomes[i]).Add(float64(n))
	}
}

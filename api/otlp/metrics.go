package otlp

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts spans and log records by outcome.
type Metrics struct{ Items *prometheus.CounterVec }

// outcomes lists the values of the label outcome.
var outcomes = [...]string{"recorded", "replayed", "ignored", "rejected"}

// NewMetrics creates the metrics, with a series for every outcome. Otherwise, Prometheus' rate()
// would not count the first item of each outcome.
func NewMetrics() Metrics {
	m := Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colophon_otlp_items_total",
		Help: "Spans and log records that exporters sent by OTLP, by outcome: generations that were recorded, generations that the ledger already had (replayed), items that are not generations (ignored), and rejected items.",
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

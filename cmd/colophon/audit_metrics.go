package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape is what a server exports of one ledger: the metrics that are derived from its
// log, by name and labels, and the size that all of them are as of.
type scrape struct {
	size   uint64
	series map[string]float64
}

// Metrics that are as of a size: those of the index.
const (
	derivedMetrics = "colophon_ledger_"
	sizeOfIndex    = "colophon_ledger_index_size"
	sizeOfTree     = "colophon_ledger_tree_size" // may be ahead
)

// fetchMetrics fetches the metrics of a ledger. unseen says why they cannot be seen, if
// they cannot.
func fetchMetrics(ctx context.Context, f *fetcher, url, ledger string) (s *scrape, unseen string, err error) {
	answer, err := f.getFrom(ctx, url, maxAuditJSON)
	if err != nil {
		return nil, "", err
	}
	if answer.status != http.StatusOK {
		return nil, answer.why, nil
	}
	s, err = readMetrics(answer.body, ledger)
	if err != nil {
		return nil, "", err
	}
	return s, "", nil
}

func readMetrics(text []byte, ledger string) (*scrape, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	s := &scrape{series: make(map[string]float64)}
	for name, family := range families {
		if !strings.HasPrefix(name, derivedMetrics) {
			continue
		}
		for _, m := range family.GetMetric() {
			labels, of := seriesName(name, m)
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			switch {
			case of != ledger || name == sizeOfTree:
			case name == sizeOfIndex:
				s.size = uint64(value)
			default:
				s.series[labels] = value
			}
		}
	}
	return s, nil
}

// seriesName is a series as Prometheus writes it, without the ledger that it is of.
func seriesName(name string, m *dto.Metric) (series, ledger string) {
	var labels []string
	for _, l := range m.GetLabel() { // in the order of their names
		if l.GetName() == "ledger" {
			ledger = l.GetValue()
			continue
		}
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	return name, ledger
}

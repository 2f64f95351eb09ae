package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"colophon/internal/cli"
)

// scrape is what a server exports of one ledger: the metrics that are derived from its
// log, by name and labels, and the sizes that it says.
type scrape struct {
	size   uint64 // that the series are as of
	tree   uint64 // of the log, which may be ahead
	series map[string]float64
	types  map[string]string // by name
}

// Metrics that are as of a size: those of the index.
const (
	derivedMetrics = "colophon_ledger_"
	sizeOfIndex    = "colophon_ledger_index_size"
	sizeOfTree     = "colophon_ledger_tree_size" // may be ahead
)

// maxSeries bounds the lines about one ledger: no label of them is a client's to choose.
const maxSeries = 20_000

// fetchMetrics fetches the metrics of a ledger. unseen says why they cannot be seen, if
// they cannot.
func fetchMetrics(ctx context.Context, f *fetcher, url, ledger string) (s *scrape, unseen string, err error) {
	answer, err := f.getFrom(ctx, url, maxMetrics)
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

// linesOf are the lines that are about a ledger, or about what is derived from logs: a
// server may have many ledgers.
func linesOf(text []byte, ledger string) ([]byte, error) {
	var kept bytes.Buffer
	n := 0
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(derivedMetrics)) || line[0] != '#' && !bytes.Contains(line, []byte(ledger)) {
			continue
		}
		if n++; n > maxSeries {
			return nil, fmt.Errorf("%w: more than %d series of one ledger", errTooMuch, maxSeries)
		}
		kept.Write(line)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("%w: its last line has no end", errAnswer)
	}
	return kept.Bytes(), nil
}

func readMetrics(text []byte, ledger string) (*scrape, error) {
	text, err := linesOf(text, ledger)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	s := &scrape{series: make(map[string]float64), types: make(map[string]string)}
	sizes := make(map[string]uint64)
	for name, family := range families {
		if !strings.HasPrefix(name, derivedMetrics) {
			continue
		}
		for _, m := range family.GetMetric() {
			labels, of := seriesName(name, m)
			if of != ledger {
				continue
			}
			if m.TimestampMs != nil {
				return nil, fmt.Errorf("%w: %s has a time of its own: it is not of this moment", errAnswer, labels)
			}
			if _, twice := s.series[labels]; twice || sizes[labels] > 0 {
				return nil, fmt.Errorf("%w: %s is there twice", errAnswer, labels)
			}
			s.types[name] = family.GetType().String()
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			if name != sizeOfIndex && name != sizeOfTree {
				s.series[labels] = value
				continue
			}
			if value != math.Trunc(value) || value < 1 || value > 1<<53 || labels != name {
				return nil, fmt.Errorf("%w: %s is %v, which is no size", errAnswer, labels, value)
			}
			sizes[labels] = uint64(value)
		}
	}
	s.size, s.tree = sizes[sizeOfIndex], sizes[sizeOfTree]
	return s, nil
}

// sizesHold compares the sizes with those of the log before and after.
func (s *scrape) sizesHold(before, after uint64) *auditFinding {
	f := &auditFinding{Kind: kindMetrics, Query: "/metrics", Row: sizeOfIndex, Got: cli.Decimal(s.size)}
	switch {
	case s.size > after:
		f.Message, f.Expected = "the index is ahead of the log", "at most "+cli.Decimal(after)
	case s.size < before:
		f.Message, f.Expected = "the index is behind the log: answers leave out what came since", "at least "+cli.Decimal(before)
	case s.tree > after:
		f.Row, f.Got, f.Message, f.Expected = sizeOfTree, cli.Decimal(s.tree), "it is more than the log has", "at most "+cli.Decimal(after)
	case s.tree < s.size:
		f.Row, f.Got, f.Message, f.Expected = sizeOfTree, cli.Decimal(s.tree), "it is less than the index has", "at least "+cli.Decimal(s.size)
	default:
		return nil
	}
	return f
}

// differs compares what a server exports with what the copy of its log does, and lists
// what differs.
func (s *scrape) differs(got *scrape) (found []auditFinding) {
	all := maps.Clone(s.series)
	maps.Copy(all, got.series)
	for _, series := range slices.Sorted(maps.Keys(all)) {
		want, wanted := s.series[series]
		value, given := got.series[series]
		if wanted == given && want == value {
			continue
		}
		f := auditFinding{Kind: kindMetrics, Row: series, Message: "it differs", Expected: "nothing", Got: "nothing"}
		if wanted {
			f.Expected = fmt.Sprint(want)
		}
		if given {
			f.Got = fmt.Sprint(value)
		}
		found = append(found, f)
	}
	for _, name := range slices.Sorted(maps.Keys(s.types)) {
		if kind, given := got.types[name]; given && kind != s.types[name] {
			found = append(found, auditFinding{Kind: kindMetrics, Row: name, Message: "it is of another type", Expected: s.types[name], Got: kind})
		}
	}
	return found
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

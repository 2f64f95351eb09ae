package monitor

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

// scrape holds what a server exports about one ledger: the metrics derived from its log, by
// name and labels, and the sizes.
type scrape struct {
	Size   uint64 // at which the series were taken
	Tree   uint64 // of the log, which may be larger
	series map[string]float64
	types  map[string]string // by name
}

// Metrics that state sizes.
const (
	DerivedMetrics = "colophon_ledger_"
	SizeOfIndex    = "colophon_ledger_index_size"
	SizeOfTree     = "colophon_ledger_tree_size" // may be ahead
)

// maxSeries bounds the series of one ledger; clients choose none of their labels.
const maxSeries = 20_000

// fetchMetrics fetches the metrics of a ledger. unseen says why they are not accessible.
func fetchMetrics(ctx context.Context, f *Fetcher, url, ledger string) (s *scrape, unseen string, err error) {
	answer, err := f.GetFrom(ctx, url, maxMetrics)
	if err != nil {
		return nil, "", err
	}
	if answer.Status != http.StatusOK {
		return nil, answer.why, nil
	}
	s, err = ReadMetrics(answer.Body, ledger)
	if err != nil {
		return nil, "", err
	}
	return s, "", nil
}

// linesOf selects the lines about one ledger. A server may have many ledgers.
func linesOf(text []byte, ledger string) ([]byte, error) {
	var kept bytes.Buffer
	n := 0
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(DerivedMetrics)) || line[0] != '#' && !bytes.Contains(line, []byte(ledger)) {
			continue
		}
		if n++; n > maxSeries {
			return nil, fmt.Errorf("%w: more than %d series of one ledger", ErrTooMuch, maxSeries)
		}
		kept.Write(line)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("%w: its last line has no end", errAnswer)
	}
	return kept.Bytes(), nil
}

func ReadMetrics(text []byte, ledger string) (*scrape, error) {
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
		if !strings.HasPrefix(name, DerivedMetrics) {
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
			if name != SizeOfIndex && name != SizeOfTree {
				s.series[labels] = value
				continue
			}
			if value != math.Trunc(value) || value < 1 || value > 1<<53 || labels != name {
				return nil, fmt.Errorf("%w: %s is %v, which is no size", errAnswer, labels, value)
			}
			sizes[labels] = uint64(value)
		}
	}
	s.Size, s.Tree = sizes[SizeOfIndex], sizes[SizeOfTree]
	return s, nil
}

// SizesHold compares the exported sizes with the log's sizes before and after.
func (s *scrape) SizesHold(before, after uint64) *Finding {
	f := &Finding{Kind: KindMetrics, Query: "/metrics", Row: SizeOfIndex, Got: cli.Decimal(s.Size)}
	switch {
	case s.Size > after:
		f.Message, f.Expected = "the index is ahead of the log", "at most "+cli.Decimal(after)
	case s.Size < before:
		f.Message, f.Expected = "the index is behind the log: answers leave out what came since", "at least "+cli.Decimal(before)
	case s.Tree > after:
		f.Row, f.Got, f.Message, f.Expected = SizeOfTree, cli.Decimal(s.Tree), "it is more than the log has", "at most "+cli.Decimal(after)
	case s.Tree < s.Size:
		f.Row, f.Got, f.Message, f.Expected = SizeOfTree, cli.Decimal(s.Tree), "it is less than the index has", "at least "+cli.Decimal(s.Size)
	default:
		return nil
	}
	return f
}

// Differs returns the differences between a server's metrics and those derived from the log.
func (s *scrape) Differs(got *scrape) (found []Finding) {
	all := maps.Clone(s.series)
	maps.Copy(all, got.series)
	for _, series := range slices.Sorted(maps.Keys(all)) {
		want, wanted := s.series[series]
		value, given := got.series[series]
		if wanted == given && want == value {
			continue
		}
		f := Finding{Kind: KindMetrics, Row: series, Message: "it differs", Expected: "nothing", Got: "nothing"}
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
			found = append(found, Finding{Kind: KindMetrics, Row: name, Message: "it is of another type", Expected: s.types[name], Got: kind})
		}
	}
	return found
}

// seriesName returns a series in Prometheus' notation without its ledger, and the ledger.
func seriesName(name string, m *dto.Metric) (series, ledger string) {
	var labels []string
	for _, l := range m.GetLabel() { // sorted by name
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

package replay

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
)

// scrape holds the metrics that a server exports about one ledger: its sizes, and the series
// derived from its log, keyed by name and labels.
type scrape struct {
	size   uint64 // tree size that the series reflect
	tree   uint64 // size of the log, which can be larger than the index
	series map[string]float64
	types  map[string]string // type of each metric, keyed by name
}

// ledgerMetrics is the prefix of all metrics about ledgers. The other two constants name the
// metrics that report sizes.
const (
	ledgerMetrics   = "colophon_ledger_"
	indexSizeMetric = "colophon_ledger_index_size"
	treeSizeMetric  = "colophon_ledger_tree_size" // can be larger than the size of the index
)

// Limits on the metrics that the audit reads.
const (
	maxMetrics = 64 << 20 // maximum total length of the metrics of all ledgers, in bytes
	maxSeries  = 20_000   // maximum number of series for one ledger; clients cannot create series by choosing labels
)

// linesOf returns the lines of text that may concern the named ledger. It drops those about the
// server's other ledgers.
func linesOf(text []byte, ledger string) ([]byte, error) {
	var kept bytes.Buffer
	n := 0
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(ledgerMetrics)) || line[0] != '#' && !bytes.Contains(line, []byte(ledger)) {
			continue
		}
		if n++; n > maxSeries {
			return nil, fmt.Errorf("%w: more than %d metric series for one ledger", fetch.ErrTooLong, maxSeries)
		}
		kept.Write(line)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("%w: the last line has no newline", fetch.ErrMalformed)
	}
	return kept.Bytes(), nil
}

// readMetrics parses the metrics of a ledger. It rejects text that another parser could read
// differently.
func readMetrics(text []byte, ledger string) (*scrape, error) {
	text, err := linesOf(text, ledger)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fetch.ErrMalformed, err)
	}
	return scrapeOf(slices.Collect(maps.Values(families)), ledger)
}

// scrapeOf returns the metrics in families that describe the named ledger.
func scrapeOf(families []*dto.MetricFamily, ledger string) (*scrape, error) {
	s := &scrape{series: make(map[string]float64), types: make(map[string]string)}
	sizes := make(map[string]uint64)
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, ledgerMetrics) {
			continue
		}
		for _, m := range family.GetMetric() {
			labels, of := seriesName(name, m)
			if of != ledger {
				continue
			}
			if m.TimestampMs != nil {
				return nil, fmt.Errorf("%w: %s has a timestamp, so its value may be stale", fetch.ErrMalformed, labels)
			}
			if _, twice := s.series[labels]; twice || sizes[labels] > 0 {
				return nil, fmt.Errorf("%w: %s is exported twice", fetch.ErrMalformed, labels)
			}
			s.types[name] = family.GetType().String()
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			if name != indexSizeMetric && name != treeSizeMetric {
				s.series[labels] = value
				continue
			}
			if value != math.Trunc(value) || value < 1 || value > 1<<53 || labels != name {
				return nil, fmt.Errorf("%w: %s is %v, which is not a valid size", fetch.ErrMalformed, labels, value)
			}
			sizes[labels] = uint64(value)
		}
	}
	s.size, s.tree = sizes[indexSizeMetric], sizes[treeSizeMetric]
	return s, nil
}

// checkSizes compares the exported sizes with the sizes of the log before and after the metrics
// were requested.
func (s *scrape) checkSizes(before, after uint64) *monitor.Finding {
	f := &monitor.Finding{Kind: monitor.DamageKindMetrics, Query: "/metrics", Row: indexSizeMetric, Got: decimal(s.size)}
	switch {
	case s.size > after:
		f.Message, f.Expected = "the index is ahead of the log", "at most "+decimal(after)
	case s.size < before:
		f.Message, f.Expected = "the index is behind the log: responses omit the latest events", "at least "+decimal(before)
	case s.tree > after:
		f.Row, f.Got, f.Message, f.Expected = treeSizeMetric, decimal(s.tree), "the tree size is larger than the size of the log", "at most "+decimal(after)
	case s.tree < s.size:
		f.Row, f.Got, f.Message, f.Expected = treeSizeMetric, decimal(s.tree), "the tree size is smaller than the size of the index", "at least "+decimal(s.size)
	default:
		return nil
	}
	return f
}

// differences returns a finding for each series and each metric type in which a server's metrics
// differ from those derived from the log.
func (s *scrape) differences(got *scrape) (found []monitor.Finding) {
	all := maps.Clone(s.series)
	maps.Copy(all, got.series)
	for _, series := range slices.Sorted(maps.Keys(all)) {
		want, wanted := s.series[series]
		value, given := got.series[series]
		if wanted == given && want == value {
			continue
		}
		f := monitor.Finding{Kind: monitor.DamageKindMetrics, Row: series, Message: "the value is not the expected one", Expected: "nothing", Got: "nothing"}
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
			found = append(found, monitor.Finding{Kind: monitor.DamageKindMetrics, Row: name, Message: "the metric has an unexpected type", Expected: s.types[name], Got: kind})
		}
	}
	return found
}

// seriesName returns the series of m in Prometheus notation without its ledger label, and the value
// of that label.
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

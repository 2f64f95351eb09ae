package index

import (
	"cmp"
	"slices"
)

// Tally is the counters of a ledger at a size of its index.
type Tally struct {
	Size     uint64            // events that it covers
	Records  map[string]uint64 // by kind
	Refusals map[string]uint64 // by reason
	Checks   []CheckCount      // by kind, field and result, sorted
}

// CheckCount counts the checks of one field that had one result.
type CheckCount struct {
	Kind   string
	Field  string // bounded as record.Check.MetricField has it
	Result string
	Count  uint64
}

// Tally is the present state of the counters that the collector shows.
func (f *Follower) Tally() Tally {
	p := f.published.Load()
	t := Tally{Size: p.size, Records: make(map[string]uint64), Refusals: make(map[string]uint64)}
	for s, n := range p.counts() {
		switch s.metric {
		case recordsTotal:
			t.Records[s.labels[0]] = n
		case refusalsTotal:
			t.Refusals[s.labels[0]] = n
		case checksTotal:
			t.Checks = append(t.Checks, CheckCount{s.labels[0], s.labels[1], s.labels[2], n})
		}
	}
	slices.SortFunc(t.Checks, func(a, b CheckCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Result, b.Result))
	})
	return t
}

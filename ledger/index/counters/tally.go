package counters

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

// Source is the counters of a ledger, as an index has them.
type Source interface {
	// Name is the ledger's name.
	Name() string
	// Counted is the counters, and the size of the log that they are as of.
	Counted() (Counts, uint64)
}

// TallyOf is the present state of the counters that the collector shows.
func TallyOf(of Source) Tally {
	counted, size := of.Counted()
	t := Tally{Size: size, Records: make(map[string]uint64), Refusals: make(map[string]uint64)}
	for s, n := range counted {
		switch s.Metric {
		case RecordsTotal:
			t.Records[s.Labels[0]] = n
		case RefusalsTotal:
			t.Refusals[s.Labels[0]] = n
		case ChecksTotal:
			t.Checks = append(t.Checks, CheckCount{s.Labels[0], s.Labels[1], s.Labels[2], n})
		}
	}
	slices.SortFunc(t.Checks, func(a, b CheckCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Result, b.Result))
	})
	return t
}

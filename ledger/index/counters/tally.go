package counters

import (
	"cmp"
	"slices"
)

// Tally holds a selection of a ledger's counters as of one tree size.
type Tally struct {
	Size             uint64            // number of events covered
	RecordsByKind    map[string]uint64 // number of records by kind
	RefusalsByReason map[string]uint64 // number of refusals by reason
	IncompleteByPart map[string]uint64 // number of incomplete IPC records, by missing part
	CheckCounts      []CheckCount      // sorted by kind, field, and result
}

// CheckCount is the number of checks of one field that had the same result.
type CheckCount struct {
	Kind   string // kind of the records, or OtherLabel
	Field  string // one of a bounded set of names, see FieldLabel
	Result string // result of the checks, or OtherLabel
	Count  uint64 // number of checks
}

// Source provides the counters of a ledger.
type Source interface {
	// Name returns the ledger's name.
	Name() string
	// Counts returns the counters and the tree size that they cover.
	Counts() (Counts, uint64)
}

// TallyOf returns the current tally of a source.
func TallyOf(source Source) Tally {
	counted, size := source.Counts()
	t := Tally{Size: size, RecordsByKind: make(map[string]uint64), RefusalsByReason: make(map[string]uint64), IncompleteByPart: make(map[string]uint64)}
	for s, n := range counted {
		switch s.Metric {
		case MetricRecords:
			t.RecordsByKind[s.Labels[0]] = n
		case MetricRefusals:
			t.RefusalsByReason[s.Labels[0]] = n
		case MetricIncompleteRecords:
			t.IncompleteByPart[s.Labels[0]] = n
		case MetricHashChecks:
			t.CheckCounts = append(t.CheckCounts, CheckCount{s.Labels[0], s.Labels[1], s.Labels[2], n})
		}
	}
	slices.SortFunc(t.CheckCounts, func(a, b CheckCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Result, b.Result))
	})
	return t
}

package counters

import (
	"cmp"
	"slices"
)

// Tally holds a selection of a ledger's counters as of one tree size.
type Tally struct {
	Size              uint64            // number of events covered
	Records           map[string]uint64 // number of records by kind
	Refusals          map[string]uint64 // number of refusals by reason
	IncompleteRecords map[string]uint64 // number of incomplete IPC records, by missing part
	Checks            []CheckCount      // sorted by kind, field, and result
}

// CheckCount is the number of checks of one field that had the same result.
type CheckCount struct {
	Kind   string
	Field  string // one of a bounded set of names, see FieldLabel
	Result string
	Count  uint64
}

// Source provides the counters of a ledger.
type Source interface {
	// Name returns the ledger's name.
	Name() string
	// Counts returns the counters and the tree size that they cover.
	Counts() (Counts, uint64)
}

// TallyOf returns the current tally of a source.
func TallyOf(of Source) Tally {
	counted, size := of.Counts()
	t := Tally{Size: size, Records: make(map[string]uint64), Refusals: make(map[string]uint64), IncompleteRecords: make(map[string]uint64)}
	for s, n := range counted {
		switch s.Metric {
		case RecordsTotal:
			t.Records[s.Labels[0]] = n
		case RefusalsTotal:
			t.Refusals[s.Labels[0]] = n
		case IncompleteRecordsTotal:
			t.IncompleteRecords[s.Labels[0]] = n
		case HashChecksTotal:
			t.Checks = append(t.Checks, CheckCount{s.Labels[0], s.Labels[1], s.Labels[2], n})
		}
	}
	slices.SortFunc(t.Checks, func(a, b CheckCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Result, b.Result))
	})
	return t
}

// Package groups answers questions about groups of IPC runs that share a value, about their
// outputs, and about rankings of groups (spec: Groups).
//
// Deriver.Derive does nothing, because versions of groups are postings, which records.Deriver
// writes. For each record, records.Deriver calls Deriver.Begin, and then Deriver.Group for
// each value that forms a group. For a change of state it calls Deriver.StateChanged.
// Deriver.FlushPending writes the rankings later.
package groups

import (
	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Dimensions of groups. In these comments, a family is the identity of a name by which runs
// are grouped. The counts of a group are in the postings of its value.
const (
	// A key of rankings consists of a family, the number of a ranking, a score (8 bytes), and
	// the seq (8 bytes, inverted) of the group's first run.
	rankings rowstore.Dimension = 0x11
	// deadRuns maps a group and the seq (8 bytes) of the first of consecutive runs that are
	// not live to the seq of the last one.
	deadRuns rowstore.Dimension = 0x12

	// A row of families has a family, and one version for each group. The group's first run
	// writes the version, whose value is the group.
	families rowstore.Dimension = 0x81
	// outputs maps a group and the first run (8 bytes) of the ledger with an output to the
	// number of runs of the group that have that output.
	outputs rowstore.Dimension = 0x82
	// outputLevels maps a group and a number of live runs (8 bytes) to the number of outputs
	// of the group that have that number of live runs.
	outputLevels rowstore.Dimension = 0x84
	// A row of Combinations has a combination, alone or together with a label or a build, and one version
	// for each run of the combination. The value is the run's output, as the distance to the
	// first run of the ledger with that output.
	Combinations rowstore.Dimension = 0x85
)

// Family returns the rows and the deriver that answer questions about groups of runs, their
// outputs, and rankings.
func Family() index.Family {
	var causes []counters.Series
	for _, cause := range drift.Causes {
		causes = append(causes, counters.SeriesOf(counters.DriftTotal, string(cause)))
	}
	return index.Family{
		Rows: map[rowstore.Dimension]int{families: len(rowstore.Identity{}), outputs: len(outputRow{}), outputLevels: len(levelRow{}),
			Combinations: len(rowstore.Identity{}), values: len(rowstore.Identity{})},
		Counters: causes,
		New: func(f *index.Fold) index.Deriver {
			d := &Deriver{Fold: f, evidence: index.DeriverOf[evidence](f)}
			records := index.DeriverOf[*records.Deriver](f)
			records.SetGrouper(d)
			records.AddStateObserver(d)
			return d
		},
	}
}

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
	// rankings: a family, the number of a ranking, a score (8), and the seq (8, inverted) of
	// the group's first run.
	rankings rowstore.Dimension = 0x11
	// deadRuns: a group and the seq (8) of the first of consecutive runs that are not live;
	// the seq of the last one.
	deadRuns rowstore.Dimension = 0x12

	// families: a family; one version for each group, written by the group's first run: the
	// group.
	families rowstore.Dimension = 0x81
	// outputs: a group and the first run (8) of the ledger with an output; how many runs of
	// the group have that output.
	outputs rowstore.Dimension = 0x82
	// outputLevels: a group and a number of live runs (8); how many outputs of the group have
	// that number of live runs.
	outputLevels rowstore.Dimension = 0x84
	// Combinations: a combination, alone or together with a label; one version for each run of
	// the combination. Its value is the run's output, as the distance to the first run of the
	// ledger with that output.
	Combinations rowstore.Dimension = 0x85
)

// Family answers questions about groups of runs, their outputs, and rankings.
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
			records.GroupBy(d)
			records.ObserveStates(d)
			return d
		},
	}
}

// Package groups answers questions about groups of IPC runs that share a value, about their
// outputs, and about rankings of groups (spec: Groups).
//
// Deriver.Derive does nothing, because versions of groups are postings, which records.Deriver
// writes. For each record, records.Deriver calls Deriver.BeginRecord, and then Deriver.WriteGroup
// for each value that forms a group. When a state changes, it calls Deriver.BeforeStateChange.
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
	// A key in rankings consists of a family, the number of a ranking, a score (8 bytes), and the
	// seq (8 bytes, inverted) of the group's first run.
	rankings rowstore.Dimension = 0x11
	// deadRuns describes ranges of consecutive runs that are not live. It maps a group and the seq
	// (8 bytes) of the first run in a range to the seq of the last one.
	deadRuns rowstore.Dimension = 0x12

	// The key of a row in families is a family. The row has one version for each group, written by
	// the group's first run. The value of the version is the group.
	families rowstore.Dimension = 0x81
	// outputs maps a group and an output to the number of runs in the group with that output. The
	// output is represented by the seq (8 bytes) of the first run in the ledger that has it.
	outputs rowstore.Dimension = 0x82
	// outputLevels maps a group and a number n (8 bytes) to the number of the group's outputs that
	// have exactly n live runs.
	outputLevels rowstore.Dimension = 0x84
	// CombinationsDimension has one row for each combination, alone or together with a label or a
	// build, unless it is deferred (see deferredCombinations). The row has one version for each run of the
	// combination. The version's value is the run's output, encoded as the distance from the run back
	// to the first run in the ledger with that output.
	CombinationsDimension rowstore.Dimension = 0x85
)

// Family returns the rows and the deriver that answer questions about groups of runs, their
// outputs, and rankings.
func Family() index.Family {
	var causes []counters.Series
	for _, cause := range drift.Causes {
		causes = append(causes, counters.SeriesOf(counters.MetricDrift, string(cause)))
	}
	return index.Family{
		RowBytes: map[rowstore.Dimension]int{families: len(rowstore.Identity{}), outputs: len(outputRow{}), outputLevels: len(levelRow{}),
			CombinationsDimension: len(rowstore.Identity{}), values: len(rowstore.Identity{})},
		InitialSeries: causes,
		New: func(f *index.Fold) index.Deriver {
			d := &Deriver{Fold: f, evidence: index.DeriverOf[evidence](f)}
			records := index.DeriverOf[*records.Deriver](f)
			records.SetGrouper(d)
			records.AddStateObserver(d)
			return d
		},
	}
}

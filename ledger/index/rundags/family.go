// Package rundags indexes run-DAGs and answers queries about them: by question, by cache key, in
// groups, and by failure.
package rundags

import (
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Dimensions of run-DAGs.
const (
	// A liveOfGroup key is the identity of a group followed by the seq (8 bytes, inverted) of a
	// live run-DAG in that group. Only groups of several run-DAGs have such keys. A liveOfCacheKey
	// key is a row of cachedRuns followed by the seq (8 bytes, inverted) of a live run-DAG.
	liveOfGroup    rowstore.Dimension = 0x28
	liveOfCacheKey rowstore.Dimension = 0x29
	// A recentGroups key is the position of a name in GroupFields, followed by the seq (8 bytes,
	// inverted) of the last live run-DAG of a group. Its value is the group. Only groups of
	// several run-DAGs have such keys.
	recentGroups rowstore.Dimension = 0x2a

	// questionRuns maps the identity of a question_hash to its latest live run-DAG.
	questionRuns rowstore.Dimension = 0xa8
	// A row of cachedRuns is the identity of a cache_key followed by the identity of a set of
	// dimensions. Its value is the number of live run-DAGs with this key and these dimensions, and
	// the latest of them.
	cachedRuns rowstore.Dimension = 0xa9
	// failureCounts maps the positions of a failure_stage, an audit_mode, and a shape (1 byte each)
	// to the number of run-DAGs with this outcome so far.
	failureCounts rowstore.Dimension = 0xaa
	// A row of withdrawnRuns is the seq (8 bytes) of a run-DAG whose state has changed. Its
	// value says whether the run-DAG is live.
	withdrawnRuns rowstore.Dimension = 0xab
	// groupVersions maps the identity of a name in GroupFields and a value to the group of run-DAGs
	// with that value.
	groupVersions rowstore.Dimension = 0xac
	// groupLists contains one row for each name in GroupFields. The position of the name is the key of
	// the row. The first run-DAG of each group adds a version to the row. The value of the version is
	// the identity of the group.
	groupLists rowstore.Dimension = 0xad
	// groupAnswers maps the identities of a group and of an answer to the number of run-DAGs in the
	// group that have the answer. It contains only groups of several run-DAGs.
	groupAnswers rowstore.Dimension = 0xae
)

// Family returns the index family for run-DAGs: its dimensions, counters, and deriver.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	var failures []counters.Series
	for _, stage := range failureStages {
		for _, mode := range auditModes {
			failures = append(failures, counters.SeriesOf(counters.MetricDAGFailures, stage, mode))
		}
	}
	return index.Family{
		RowBytes: map[rowstore.Dimension]int{questionRuns: identity, cachedRuns: 2 * identity, failureCounts: 3, withdrawnRuns: rowstore.SeqSize,
			groupVersions: identity, groupLists: 1, groupAnswers: 2 * identity},
		InitialSeries: failures,
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f}
			index.DeriverOf[*records.Deriver](f).AddStateObserver(d)
			return d
		},
	}
}

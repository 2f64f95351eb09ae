// Package rundags is the family of questions about run-DAGs: by question, by cache key, in
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
	// liveOfGroup: a group of several run-DAGs and the seq (8, inverted) of a live one.
	// liveOfCacheKey: a row of cachedRuns and the seq (8, inverted) of a live run-DAG.
	liveOfGroup    rowstore.Dimension = 0x28
	liveOfCacheKey rowstore.Dimension = 0x29
	// recentGroups: the position of a name in GroupedBy, and the seq (8, inverted) of the last
	// live run-DAG of a group of several run-DAGs; the group.
	recentGroups rowstore.Dimension = 0x2a

	// questionRuns: identity of a question_hash; its latest live run-DAG.
	questionRuns rowstore.Dimension = 0xa8
	// cachedRuns: the identity of a cache_key and the identity of dimensions; the number of live
	// run-DAGs and the latest of them.
	cachedRuns rowstore.Dimension = 0xa9
	// failureCounts: numbers of a failure_stage, an audit_mode, and a shape (1 each); the number
	// of run-DAGs with this outcome so far.
	failureCounts rowstore.Dimension = 0xaa
	// withdrawnRuns: the seq (8) of a run-DAG whose state has changed; whether it is live.
	withdrawnRuns rowstore.Dimension = 0xab
	// groupVersions: identity of a name in GroupedBy and a value; the group.
	groupVersions rowstore.Dimension = 0xac
	// groupLists: the position of a name in GroupedBy; one version for each group, written by its
	// first run-DAG: the group.
	groupLists rowstore.Dimension = 0xad
	// groupAnswers: a group of several run-DAGs and the identity of an answer; how many
	// run-DAGs of the group have that answer.
	groupAnswers rowstore.Dimension = 0xae
)

// Family answers questions about run-DAGs: by question, by cache key, in groups, and by
// failure.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	var failures []counters.Series
	for _, stage := range failureStages {
		for _, mode := range auditModes {
			failures = append(failures, counters.SeriesOf(counters.FailuresTotal, stage, mode))
		}
	}
	return index.Family{
		Rows: map[rowstore.Dimension]int{questionRuns: identity, cachedRuns: 2 * identity, failureCounts: 3, withdrawnRuns: rowstore.SeqBytes,
			groupVersions: identity, groupLists: 1, groupAnswers: 2 * identity},
		Counters: failures,
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f}
			index.DeriverOf[*records.Deriver](f).ObserveStates(d)
			return d
		},
	}
}

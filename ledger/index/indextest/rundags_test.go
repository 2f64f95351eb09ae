package indextest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/index/rundags"
	"colophon/ledger/record"
	"colophon/storage"
)

// Every query about run-DAGs agrees with the naive model, at any log size and with any page length.
// This is true for live run-DAGs and for run-DAGs in any state.
func TestRunDAGsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			log.append(drawDAGEvent(t, log.head.Size))
		}
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents = rapid.IntRange(1, 40).Draw(t, "batch")
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		log.catchUp(f)
		require.Equal(t, log.refold(), dump(t, s), "the rows do not depend on the batches")
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		for _, size := range []uint64{log.head.Size, rapid.Uint64Range(0, log.head.Size).Draw(t, "as of")} {
			v, err := f.View(size)
			require.NoError(t, err)
			requireRuns(t, v, log.ranEvents(size), limit)
			require.NoError(t, v.Close())
		}
		requireRunCounts(t, countsOf(f), log.ranEvents(log.head.Size))
	})
}

// The lists of groups of run-DAGs agree with the naive model, even after state changes. ListGroups
// sorts the groups by their first run-DAG, at any log size. ListGroupsByLastRun sorts them by their
// last run-DAG, at the head.
func TestRunGroupsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents = rapid.IntRange(1, 40).Draw(t, "batch")
		c.RowCacheBytes = rapid.IntRange(0, 2000).Draw(t, "kept")
		for range 2 { // the second time, the index already has rows
			for range rapid.IntRange(1, 25).Draw(t, "events") {
				log.append(drawDAGEvent(t, log.head.Size))
			}
			s := openTest(t, c)
			f := follow(t, s, log)
			log.catchUp(f)
			requireRunGroups(t, f, log)
			require.Equal(t, log.refold(), dump(t, s), "the rows do not depend on the batches")
			require.NoError(t, s.Close())
		}
	})
}

func requireRunGroups(t *rapid.T, f *index.Follower, log *journal) {
	size := drawSize(t, log)
	v, err := f.View(size)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	limit := rapid.IntRange(1, 5).Draw(t, "limit")
	for _, by := range rundags.GroupFields {
		q := rundags.GroupQuery{Field: by, AnyState: rapid.Bool().Draw(t, "any"), TimeRange: index.TimeRange{Since: drawMoment(t, log, "since"), Until: drawMoment(t, log, "until")}, MinRuns: rapid.Uint64Range(0, 3).Draw(t, "min_runs")}
		want := naiveRunGroups(log.ranEvents(size), q)
		got := pages(t, limit, func(p index.PageRequest) ([]rundags.Group, []byte, error) {
			return rundags.ListGroups(background, v, q, p)
		})
		require.Equal(t, want, inUTC(got))
		if q.AnyState || size < log.head.Size {
			_, _, err := rundags.ListGroupsByLastRun(background, v, q, index.PageRequest{Limit: 1})
			require.ErrorIs(t, err, rundags.ErrNotLatest)
			continue
		}
		slices.SortFunc(want, func(a, b rundags.Group) int { return cmp.Compare(b.LastRunSeq, a.LastRunSeq) })
		got = pages(t, limit, func(p index.PageRequest) ([]rundags.Group, []byte, error) {
			return rundags.ListGroupsByLastRun(background, v, q, p)
		})
		require.Equal(t, want, inUTC(got))
	}
}

func inUTC(groups []rundags.Group) []rundags.Group {
	for i := range groups {
		groups[i].FirstRunTime, groups[i].LastRunTime = groups[i].FirstRunTime.UTC(), groups[i].LastRunTime.UTC()
	}
	return groups
}

func requireRuns(t *rapid.T, v *index.View, events []dagEvent, limit int) {
	for _, any := range []bool{false, true} {
		for _, question := range someQuestions {
			var got []naiveRun
			for _, r := range pages(t, limit, func(p index.PageRequest) ([]rundags.QuestionRunDAG, []byte, error) {
				return rundags.ListByQuestion(background, v, question, any, p)
			}) {
				got = append(got, naiveRun{r.Seq, r.State, r.Comparison})
			}
			require.Equal(t, naiveQuestionRuns(events, question, any), got)
		}
		moment := func(name string) *time.Time {
			if rapid.Bool().Draw(t, "has "+name) {
				return new(time.UnixMicro(rapid.Int64Range(0, int64(v.Size())+1).Draw(t, name)).UTC())
			}
			return nil
		}
		bounds := index.TimeRange{Since: moment("since"), Until: moment("until")}
		failures, err := rundags.CountOutcomes(background, v, bounds, any)
		require.NoError(t, err)
		require.Equal(t, naiveFailures(events, bounds, any), failures)
		times := []time.Time{time.UnixMicro(0).UTC(), time.UnixMicro(rapid.Int64Range(1, int64(v.Size())+1).Draw(t, "end")).UTC(), time.UnixMicro(int64(v.Size()) + 2).UTC()}
		periods, err := rundags.CountOutcomesByPeriod(background, v, times, any)
		require.NoError(t, err)
		for i, found := range periods {
			require.Equal(t, naiveFailures(events, index.TimeRange{Since: &times[i], Until: &times[i+1]}, any), found)
		}
	}
	for _, key := range someKeys {
		seq, others := naiveCached(events, key)
		run, more, err := rundags.FindByCacheKey(background, v, key)
		if seq == 0 {
			require.ErrorIs(t, err, storage.ErrNotFound)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, seq, run.Seq)
		require.Equal(t, others, more)
	}
	for i, e := range events {
		d, err := rundags.CompareWithPrevious(background, v, e.seq)
		if e.Kind != "run_dag" {
			require.ErrorIs(t, err, storage.ErrNotFound)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, naiveDivergence(events[:i+1]), d)
	}
}

// naiveDivergence returns the divergence of the run-DAG in the last event.
func naiveDivergence(events []dagEvent) rundags.Comparison {
	last := &events[len(events)-1]
	if last.Record.Hashes.QuestionHash == nil {
		return rundags.Comparison{}
	}
	runs := naiveQuestionRuns(events, *last.Record.Hashes.QuestionHash, false)
	return runs[len(runs)-1].comparison
}

func requireRunCounts(t *rapid.T, counted counters.Counts, events []dagEvent) {
	want := make(map[string]uint64)
	for i, e := range events {
		if e.Kind != "run_dag" {
			continue
		}
		if d := naiveDivergence(events[:i+1]); d.OtherSeq > 0 {
			stage := "none"
			if d.Stage != nil {
				stage = oneOf(*d.Stage, "question", "preflight", "retrieval", "context", "prompt", "answer", "verify", "render", "final_label", "outcome")
			}
			want["diverged "+stage]++
		}
		for _, f := range naiveFailures(events[i:i+1], index.TimeRange{}, true) {
			want["failed "+cmp.Or(f.FailureStage, "none")+" "+cmp.Or(f.AuditMode, "none")]++
		}
	}
	got := make(map[string]uint64)
	for s, n := range counted {
		switch {
		case s.Metric == counters.MetricDAGDivergence && n > 0:
			got["diverged "+s.Labels[0]] = n
		case s.Metric == counters.MetricDAGFailures && n > 0:
			got["failed "+s.Labels[0]+" "+s.Labels[1]] = n
		}
	}
	require.Equal(t, want, got)
}

// A run-DAG is compared with the previous live run-DAG for the same question. If a run-DAG stops
// being live, it is skipped, but divergences derived earlier do not change.
func TestDivergenceOfAQuestion(t *testing.T) {
	f, _ := foldBodies(t,
		dagBody("why", node("question", "1"), node("answer", "1")), // event 1
		dagBody("how", node("question", "1"), node("answer", "5")), // event 2: for another question
		dagBody("why", node("question", "1"), node("answer", "2")), // event 3
		dagBody("why", node("question", "1"), node("answer", "1")), // event 4
		stateOf(3, "quarantined"),                                  // event 5
		dagBody("why", node("question", "1"), node("mine", "1")),   // event 6
	)
	v := viewOf(t, f, 7)
	rows, next, err := rundags.ListByQuestion(t.Context(), v, "why", false, index.PageRequest{Limit: 9})
	require.NoError(t, err)
	require.Nil(t, next)
	require.Len(t, rows, 3)
	require.Equal(t, rundags.Divergence{}, rows[0].Divergence)
	require.Equal(t, rundags.Divergence{OtherSeq: 1}, rows[1].Divergence, "no stage differs")
	answer, mine := "answer", "mine"
	require.Equal(t, rundags.Divergence{OtherSeq: 4, Stage: &mine}, rows[2].Divergence)
	d, err := rundags.CompareWithPrevious(t.Context(), v, 4)
	require.NoError(t, err)
	require.Equal(t, rundags.Divergence{OtherSeq: 3, Stage: &answer}, d.Divergence, "the divergence as of event 4")
	counted := countsOf(f)
	require.Equal(t, uint64(2), counted[counters.SeriesOf(counters.MetricDAGDivergence, "answer")])
	require.Equal(t, uint64(1), counted[counters.SeriesOf(counters.MetricDAGDivergence, counters.OtherLabel)])
	require.Zero(t, counted[counters.SeriesOf(counters.MetricDAGDivergence, "none")])
	for _, position := range [][]byte{{}, {1}, append(rowstore.AppendSeq(nil, 7), rowstore.AppendSeq(nil, 0)...), append(rowstore.AppendSeq(nil, 5), rowstore.AppendSeq(nil, 5)...)} {
		_, _, err := rundags.ListByQuestion(t.Context(), v, "why", false, index.PageRequest{Limit: 1, After: position})
		require.ErrorIs(t, err, index.ErrInvalidPosition)
	}
	for _, seq := range []uint64{0, 5, 7} {
		_, err := rundags.Get(t.Context(), v, seq)
		require.ErrorIs(t, err, storage.ErrNotFound)
	}
}

// cachedDAG returns the body of a run-DAG event with the given cache key. dimensions is JSON; if it
// is empty, the event has no dimensions.
func cachedDAG(key, dimensions string) string {
	if dimensions != "" {
		dimensions = `"cache_dimensions":` + dimensions + `,`
	}
	return rawBody("run_dag", "{}", fmt.Sprintf(`{%s"hashes":{"cache_key":%q},"nodes":[]}`, dimensions, key))
}

func TestCachedRuns(t *testing.T) {
	const dimensions = `{"schema_version":"1|2","chunking_version":"3"}`
	f, _ := foldBodies(t,
		cachedDAG("k", ""),         // event 1: its cache key is only a claim
		cachedDAG("k", dimensions), // event 2
		cachedDAG("k", dimensions), // event 3
		stateOf(3, "stale"),        // event 4
		stateOf(2, "failed"),       // event 5
		stateOf(3, "live"),         // event 6
		cachedDAG("k", `{"schema_version":"1","chunking_version":"2|3"}`), // event 7: different dimensions that are equal when joined into one text
		stateOf(7, "quarantined"), // event 8
	)
	for size, want := range map[uint64]struct{ seq, others uint64 }{2: {}, 3: {2, 0}, 4: {3, 1}, 5: {2, 0}, 6: {}, 7: {3, 0}, 8: {}, 9: {3, 0}} {
		v := viewOf(t, f, size)
		run, others, err := rundags.FindByCacheKey(t.Context(), v, "k")
		if want.seq == 0 {
			require.ErrorIs(t, err, storage.ErrNotFound, "as of %d", size)
			continue
		}
		require.NoError(t, err, "as of %d", size)
		require.Equal(t, want.seq, run.Seq, "as of %d", size)
		require.Equal(t, want.others, others, "as of %d", size)
		require.LessOrEqual(t, v.KeysRead(), 10)
	}
}

// The cost of reading the failures of a short period, or the run-DAGs for one question, is
// proportional to the size of the answer, regardless of the length of the log.
func TestRunsAreReadWithFewKeys(t *testing.T) {
	var bodies []string
	for n := range 2000 {
		bodies = append(bodies, dagBody("why", node("question", "1"), node("answer", fmt.Sprint(n/2))))
	}
	f, log := foldBodies(t, bodies...)
	v := viewOf(t, f, log.head.Size)
	failures, err := rundags.CountOutcomes(t.Context(), v, index.TimeRange{Since: new(time.UnixMicro(600)), Until: new(time.UnixMicro(1700))}, false)
	require.NoError(t, err)
	require.Equal(t, []rundags.OutcomeCount{{FailureStage: "unknown", Count: 1100}}, failures)
	require.LessOrEqual(t, v.KeysRead(), 25, "the search for each time reads only the events between two time marks")
	before := v.KeysRead()
	rows, _, err := rundags.ListByQuestion(t.Context(), v, "why", false, index.PageRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 10)
	require.LessOrEqual(t, v.KeysRead()-before, 50)
}

// The cost of a page of groups of run-DAGs is proportional to the number of its rows, regardless of
// how many groups there are and how old the groups in a period are.
func TestRunGroupsAreReadWithFewKeys(t *testing.T) {
	var bodies []string
	for n := range 2000 {
		bodies = append(bodies, dagBody(fmt.Sprint("why ", n%1000), node("question", "1"), node("answer", fmt.Sprint(n))))
	}
	f, log := foldBodies(t, append(bodies, stateOf(2000, "failed"))...)
	q := rundags.GroupQuery{Field: "question_hash", TimeRange: index.TimeRange{Since: new(time.UnixMicro(1991))}}
	v := viewOf(t, f, log.head.Size)
	rows, next, err := rundags.ListGroupsByLastRun(t.Context(), v, q, index.PageRequest{Limit: 100})
	require.NoError(t, err)
	require.Nil(t, next)
	require.Len(t, rows, 9, "events 1991 to 1999; 2000 is not live")
	require.Equal(t, []any{"why 998", uint64(2), uint64(2), uint64(999), uint64(1999)}, []any{rows[0].Value, rows[0].Runs, rows[0].DistinctAnswers, rows[0].FirstRunSeq, rows[0].LastRunSeq})
	require.LessOrEqual(t, v.KeysRead(), 60)
	q.AnyState = true
	v = viewOf(t, f, log.head.Size)
	rows, next, err = rundags.ListGroups(t.Context(), v, q, index.PageRequest{Limit: 5})
	require.NoError(t, err)
	require.NotNil(t, next)
	require.Len(t, rows, 5)
	require.LessOrEqual(t, v.KeysRead(), 60)
}

// The answer of a group's only run-DAG is kept until a second run-DAG joins, even if the first one is
// no longer live by then.
func TestRunGroupWhoseFirstIsNotLive(t *testing.T) {
	f, _ := foldBodies(t,
		dagBody("why", node("answer", "1")),   // event 1
		stateOf(1, "failed"),                  // event 2
		dagBody("why", node("answer", "1")),   // event 3
		dagBody("why", node("render", "2")),   // event 4
		dagBody("why", node("question", "1")), // event 5: has no answer
		stateOf(1, "live"),                    // event 6
		stateOf(3, "stale"),                   // event 7
		stateOf(5, "stale"),                   // event 8
		stateOf(1, "stale"),                   // event 9
		stateOf(4, "stale"),                   // event 10
	)
	type counted struct{ runs, answers, first, last uint64 }
	for size, want := range map[uint64]counted{2: {1, 1, 1, 1}, 3: {}, 4: {1, 1, 3, 3}, 5: {2, 2, 3, 4}, 6: {3, 2, 3, 5}, 7: {4, 2, 1, 5}, 8: {3, 2, 1, 5}, 9: {2, 2, 1, 4}, 10: {1, 1, 4, 4}, 11: {}} {
		rows, _, err := rundags.ListGroups(t.Context(), viewOf(t, f, size), rundags.GroupQuery{Field: "question_hash"}, index.PageRequest{Limit: 5})
		require.NoError(t, err)
		var got counted
		for _, r := range rows {
			got = counted{r.Runs, r.DistinctAnswers, r.FirstRunSeq, r.LastRunSeq}
		}
		require.Equal(t, want, got, "as of %d", size)
	}
}

// If a run-DAG has only stages, its failure stage is unknown, unless the stages show that
// preflight rejected the run. A run that was built from inputs and did not fail has no failure
// stage.
func TestFailuresOfStagesAloneAreUnknown(t *testing.T) {
	f, log := foldBodies(t,
		posted(t, record.KindRunDAG, fmt.Sprintf(`{"dag":{"root":%[1]q,"nodes":[{"stage":"question","hash":%[1]q},{"stage":"answer","hash":%[1]q}]}}`, zeros)),
		posted(t, record.KindRunDAG, fmt.Sprintf(`{"dag":{"root":%[1]q,"nodes":[{"stage":"question","hash":%[1]q},{"stage":"preflight","hash":%[1]q},{"stage":"final_label","hash":%[1]q}]}}`, zeros)),
		posted(t, record.KindRunDAG, fmt.Sprintf(`{"inputs":{"question_hash":%[1]q,"context_root":%[1]q,"conversation_hash":%[1]q,"answer_text":"a","audit_mode":"STRICT","verifier_method":"v",`+
			`"n_quotes":1,"n_verified":1,"sources":[{}]}}`, zeros)),
	)
	failures, err := rundags.CountOutcomes(t.Context(), viewOf(t, f, log.head.Size), index.TimeRange{}, false)
	require.NoError(t, err)
	require.Equal(t, []rundags.OutcomeCount{
		{Shape: "quote", AuditMode: "STRICT", Count: 1}, {Shape: "reject", Count: 1}, {FailureStage: "unknown", Shape: "unrecognised", Count: 1},
	}, failures)
	counted := countsOf(f)
	require.Equal(t, uint64(1), counted[counters.SeriesOf(counters.MetricDAGFailures, "unknown", "none")])
}

// Run-DAGs with an inconsistent verdict can be found by the flag "inconsistent" and by the broken
// rule. They are counted by that rule. Broken rules are not counted as hash checks.
func TestInconsistentVerdicts(t *testing.T) {
	f, log := foldBodies(t,
		posted(t, record.KindRunDAG, fmt.Sprintf(`{"inputs":{"question_hash":%[1]q,"context_root":%[1]q,"conversation_hash":%[1]q,"answer_text":"a","audit_mode":"STRICT","verifier_method":"v",`+
			`"n_quotes":3,"n_verified":0,"sources":[]}}`, zeros)),
		posted(t, record.KindRunDAG, fmt.Sprintf(`{"inputs":{"question_hash":%[1]q,"context_root":%[1]q,"conversation_hash":%[1]q,"answer_text":"a","audit_mode":"STRICT","verifier_method":"v",`+
			`"n_quotes":3,"n_verified":3,"sources":[{}]}}`, zeros)),
	)
	v := viewOf(t, f, log.head.Size)
	for name, text := range map[string]string{"flag": "inconsistent", "inconsistent": "strict_without_sources"} {
		rows, _, err := records.List(t.Context(), v, records.Filter{Values: []records.Value{{Name: name, Text: text}}}, index.PageRequest{Limit: 9})
		require.NoError(t, err)
		require.Len(t, rows, 1, name)
		require.Equal(t, []string{"strict_without_sources", "strict_without_verified_quotes"}, rows[0].BrokenRules)
		require.Empty(t, rows[0].Mismatches)
	}
	counted := countsOf(f)
	require.Equal(t, uint64(1), counted[counters.SeriesOf(counters.MetricInconsistentVerdicts, "strict_without_sources")])
	require.Zero(t, counted[counters.SeriesOf(counters.MetricInconsistentVerdicts, "strict_rejected")])
	for series := range counted {
		require.False(t, series.Metric == counters.MetricHashChecks && series.Labels[1] == counters.OtherLabel, series)
	}
}

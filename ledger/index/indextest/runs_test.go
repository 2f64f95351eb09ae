package indextest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
)

// runBody returns the body of an IPC record with the input "why?" and the given model and output.
// more holds further JSON members, each preceded by a comma.
func runBody(t tester, model, output, more string) string {
	t.Helper()
	return posted(t, record.KindIPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":9,`+
		`"temperature":0.7,"model":%q,"output":%q%s}`, model, output, more))
}

// groupOfModel returns the group of a model's live runs.
func groupOfModel(t *testing.T, v *index.View, model string) groups.Group {
	t.Helper()
	g, found, err := groups.Get(t.Context(), v, groups.RunQuery{Value: records.Value{Name: "model", Text: model}, AnyState: false})
	require.NoError(t, err)
	require.True(t, found)
	return g
}

func TestAGroupCountsItsOutputs(t *testing.T) {
	f, _ := foldBodies(t,
		runBody(t, "m", "yes", ""), // event 1
		runBody(t, "m", "no", ""),  // event 2
		runBody(t, "m", "no", ""),  // event 3
		runBody(t, "m", "yes", ""), // event 4
		runBody(t, "m", "no", ""),  // event 5
		runBody(t, "n", "no", ""),  // event 6
	)
	g := groupOfModel(t, viewOf(t, f, 7), "m")
	require.Equal(t, []uint64{5, 2, 3, 3}, []uint64{g.Runs, g.Outputs, g.MostCommonOutputRuns, g.Flips})
	require.InDelta(t, -0.4*math.Log2(0.4)-0.6*math.Log2(0.6), g.Entropy, 1e-9)
	require.Equal(t, []uint64{1, 5}, []uint64{g.FirstRun.Seq, g.LastRun.Seq})

	g = groupOfModel(t, viewOf(t, f, 3), "m")
	require.Equal(t, []uint64{2, 2, 1, 1}, []uint64{g.Runs, g.Outputs, g.MostCommonOutputRuns, g.Flips})
	require.Equal(t, 1.0, g.Entropy)
}

// When a run stops being live, its groups no longer count it. When it becomes live again, it
// returns to its earlier position.
func TestARunBecomesLiveAgain(t *testing.T) {
	f, _ := foldBodies(t,
		runBody(t, "m", "yes", ""),     // event 1
		runBody(t, "m", "no", ""),      // event 2
		runBody(t, "m", "yes", ""),     // event 3
		stateOf(2, "failed"),           // event 4
		stateOf(2, "stale"),            // event 5
		runBody(t, "m", "yes", ""),     // event 6
		stateOf(2, "live"),             // event 7
		stateOf(6, "stale"),            // event 8
		stateOf(1, "failed"),           // event 9
		stateOf(2, "failed"),           // event 10
		stateOf(3, "live"),             // event 11: its target is already live
		stateOf(3, "failed"),           // event 12
		stateOf(99, "failed"),          // event 13: its target does not exist
		stateOf(6, "live"),             // event 14
		runBody(t, "m", "perhaps", ""), // event 15
		stateOf(15, "live"),            // event 16
		stateOf(15, "unheard"),         // event 17
	)
	for size, want := range map[uint64][]uint64{ // each value lists runs, outputs, most common, flips, first, and last
		4:  {3, 2, 2, 2, 1, 3},
		5:  {2, 1, 2, 0, 1, 3},
		6:  {2, 1, 2, 0, 1, 3},
		7:  {3, 1, 3, 0, 1, 6},
		8:  {4, 2, 3, 2, 1, 6},
		9:  {3, 2, 2, 2, 1, 3},
		10: {2, 2, 1, 1, 2, 3},
		12: {1, 1, 1, 0, 3, 3},
		15: {1, 1, 1, 0, 6, 6},
		16: {2, 2, 1, 1, 6, 15},
		18: {2, 2, 1, 1, 6, 15},
	} {
		g := groupOfModel(t, viewOf(t, f, size), "m")
		require.Equal(t, want, []uint64{g.Runs, g.Outputs, g.MostCommonOutputRuns, g.Flips, g.FirstRun.Seq, g.LastRun.Seq}, "size %d", size)
	}
	_, found, err := groups.Get(t.Context(), viewOf(t, f, 14), groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, AnyState: false})
	require.NoError(t, err)
	require.False(t, found)
	g, found, err := groups.Get(t.Context(), viewOf(t, f, 14), groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, AnyState: true})
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []uint64{4, 2, 3, 2}, []uint64{g.Runs, g.Outputs, g.MostCommonOutputRuns, g.Flips})
}

// Each run is compared with the latest run that was live at the time. The cause of its drift is
// counted once.
func TestDriftIsCountedByCause(t *testing.T) {
	f, _ := foldBodies(t,
		runBody(t, "m", "yes", ""),                                   // event 1: the first run
		runBody(t, "m", "yes", ""),                                   // event 2: drift with the cause "identical"
		runBody(t, "n", "yes", ""),                                   // event 3: drift with the cause "no_effect"
		runBody(t, "m", "no", ""),                                    // event 4: drift with the cause "model"
		stateOf(4, "failed"),                                         // event 5
		runBody(t, "m", "no", `,"environment":{"model_digest":"d"}`), // event 6: drift with the cause "model", compared with event 3
		stateOf(6, "quarantined"),                                    // event 7
		stateOf(6, "live"),                                           // event 8
		runBody(t, "m", "x", `,"environment":{"model_digest":"d"}`),  // event 9: drift with the cause "stochastic"
		runBody(t, "m", "y", `,"environment":{"model_digest":"e"}`),  // event 10: drift with the cause "model_internal"
		runBody(t, "m", "z", ""),                                     // event 11: drift with the cause "stochastic_or_model_internal"
	)
	got := make(map[string]uint64)
	for s, n := range countsOf(f) {
		if s.Metric == counters.MetricDrift && n > 0 {
			got[s.Labels[0]] = n
		}
	}
	require.Equal(t, map[string]uint64{"identical": 1, "no_effect": 1, "model": 2, "stochastic": 1, "model_internal": 1,
		"stochastic_or_model_internal": 1}, got)
	for _, cause := range drift.Causes {
		require.Contains(t, countsOf(f), counters.SeriesOf(counters.MetricDrift, string(cause)))
	}
}

// Effects pair only runs whose ipc_id is the hash of their other fields. An earlier record that
// merely claims the same ipc_id makes no difference.
func TestEffectsOfClaimedIDs(t *testing.T) {
	idOf := func(model string) string {
		f, _ := foldBodies(t, runBody(t, model, "yes", ""))
		r, err := records.ReadIPCRecord(t.Context(), viewOf(t, f, 2), 1)
		require.NoError(t, err)
		return string(r.IPCID)
	}
	claim := func(id, output string) string { // a record without a seed has no computed ipc_id
		return posted(t, record.KindIPCRecord, fmt.Sprintf(`{"ipc_id":%q,"payload":{"q":"other"},"system_prompt":"kind","max_tokens":9,`+
			`"temperature":0.7,"model":"n","output":%q}`, id, output))
	}
	f, log := foldBodies(t,
		claim(idOf("n"), "claimed"), // event 1
		runBody(t, "m", "yes", ""),  // event 2
		runBody(t, "n", "no", ""),   // event 3
		runBody(t, "m", "no", ""),   // event 4
		claim(idOf("o"), "claimed"), // event 5
		claim(idOf("m"), "late"),    // event 6
	)
	effect := func(size uint64, a, b string) (found [][2]uint64) {
		for _, pair := range pages(t, 1, func(p index.PageRequest) ([]effects.Pair, []byte, error) {
			return effects.ListPairs(t.Context(), viewOf(t, f, size), effects.Query{Variable: "model", A: a, B: b}, p)
		}) {
			found = append(found, [2]uint64{pair.A.Seq, pair.B.Seq})
		}
		return found
	}
	require.Nil(t, effect(3, "m", "n"), "nothing yet shows what the claimed ipc_id covers")
	require.Equal(t, [][2]uint64{{2, 3}}, effect(4, "m", "n"), "a mere claim does not displace a run")
	require.Equal(t, [][2]uint64{{2, 3}}, effect(log.head.Size, "m", "n"))
	require.Equal(t, [][2]uint64{{3, 2}}, effect(log.head.Size, "n", "m"))
	require.Nil(t, effect(log.head.Size, "m", "o"))
	require.Nil(t, effect(log.head.Size, "o", "m"))
}

// A record that only claims an ipc_id does not affect which runs are paired.
func TestEffectsSkipClaimedIDs(t *testing.T) {
	y := posted(t, record.KindIPCRecord, `{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":9,"temperature":0.7,"model":"m2","output":"same"}`)
	f, _ := foldBodies(t, y)
	of, err := records.ReadIPCRecord(t.Context(), viewOf(t, f, 2), 1)
	require.NoError(t, err)
	claiming := fmt.Sprintf(`{"ipc_id":%q,"payload":{"q":"else"},"system_prompt":"kind","max_tokens":9,"temperature":0.7,"model":"zzz","output":"other"}`, of.IPCID)
	z := posted(t, record.KindIPCRecord, claiming)
	f, log := foldBodies(t, z, runBody(t, "m1", "same", ""), y, z, runBody(t, "m1", "new", ""), y, stateOf(6, "failed"), y)
	v := viewOf(t, f, log.head.Size)
	q := effects.Query{Variable: "model", A: "m1", B: "m2"}
	pairs := func() (found [][2]uint64) {
		for _, pair := range pages(t, 1, func(p index.PageRequest) ([]effects.Pair, []byte, error) {
			return effects.ListPairs(t.Context(), v, q, p)
		}) {
			found = append(found, [2]uint64{pair.A.Seq, pair.B.Seq})
		}
		return found
	}
	require.Equal(t, [][2]uint64{{2, 3}, {5, 8}}, pairs())
	totals, err := effects.CountPairs(t.Context(), v, q, nil)
	require.NoError(t, err)
	require.Equal(t, effects.Totals{Pairs: 2, ChangedPairs: 1, UnchangedPairs: 1, TreeSize: v.Size()}, totals)
	q.AnyState = true
	require.Equal(t, [][2]uint64{{2, 3}, {5, 6}}, pairs())
}

// If a filter requires several runs or outputs, ListRanked does not read the many groups that have
// only one run. Without a filter, a ranking lists these groups after those with several runs.
func TestGroupsOfSeveralRunsAmongMany(t *testing.T) {
	var bodies []string
	for n := range 500 {
		bodies = append(bodies, runBody(t, fmt.Sprint("single ", n), "yes", ""))
	}
	bodies = append(bodies, runBody(t, "steady", "yes", ""), runBody(t, "changing", "yes", ""), runBody(t, "steady", "yes", ""), runBody(t, "changing", "no", ""))
	f, log := foldBodies(t, bodies...)
	for name, c := range map[string]struct {
		ranking groups.Ranking
		query   groups.Query
		want    []string
	}{
		"runs":    {groups.RankingByRuns, groups.Query{GroupBy: "model", MinRuns: 2}, []string{"changing", "steady"}},
		"outputs": {groups.RankingByStability, groups.Query{GroupBy: "model", MinOutputs: 2}, []string{"changing"}},
		"flips":   {groups.RankingByFlips, groups.Query{GroupBy: "model", MinRuns: 2}, []string{"changing", "steady"}},
		"recent":  {groups.RankingByLastRun, groups.Query{GroupBy: "model", MinRuns: 2, TimeRange: index.TimeRange{Until: new(time.UnixMicro(504))}}, []string{"steady"}},
	} {
		v := viewOf(t, f, log.head.Size)
		rows, next, err := groups.ListRanked(t.Context(), v, c.ranking, c.query, index.PageRequest{Limit: 5})
		require.NoError(t, err, name)
		require.Nil(t, next, name)
		var got []string
		for _, row := range rows {
			got = append(got, row.Value)
		}
		require.ElementsMatch(t, c.want, got, name)
		require.Less(t, v.KeysRead(), 40, name)
	}
	v := viewOf(t, f, log.head.Size)
	for _, ranking := range []groups.Ranking{groups.RankingByLastRun, groups.RankingByRuns, groups.RankingByFlips, groups.RankingByStability} {
		all := pages(t, 7, func(p index.PageRequest) ([]groups.Group, []byte, error) {
			before := v.KeysRead()
			rows, next, err := groups.ListRanked(t.Context(), v, ranking, groups.Query{GroupBy: "model"}, p)
			require.LessOrEqual(t, v.KeysRead()-before, 7*20+10)
			return rows, next, err
		})
		require.Len(t, all, 502, "%d", ranking)
		require.ElementsMatch(t, []string{"changing", "steady"}, []string{all[0].Value, all[1].Value})
		require.Equal(t, "single 499", all[2].Value)
	}
}

func TestPositionsOfOtherQueries(t *testing.T) {
	f, _ := foldBodies(t, runBody(t, "m", "yes", ""), runBody(t, "n", "no", ""), runBody(t, "m", "no", ""))
	v := viewOf(t, f, 4)
	one := groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, AnyState: false}
	for name, list := range map[string]func(index.PageRequest) error{
		"groups": func(p index.PageRequest) error {
			_, _, err := groups.List(t.Context(), v, groups.Query{GroupBy: "model"}, p)
			return err
		},
		"ranked": func(p index.PageRequest) error {
			_, _, err := groups.ListRanked(t.Context(), v, groups.RankingByRuns, groups.Query{GroupBy: "model"}, p)
			return err
		},
		"recent": func(p index.PageRequest) error {
			_, _, err := groups.ListRanked(t.Context(), v, groups.RankingByLastRun, groups.Query{GroupBy: "model"}, p)
			return err
		},
		"runs":     func(p index.PageRequest) error { _, _, err := runs.List(t.Context(), v, one, p); return err },
		"outputs":  func(p index.PageRequest) error { _, _, err := groups.ListOutputs(t.Context(), v, one, p); return err },
		"timeline": func(p index.PageRequest) error { _, _, err := runs.Timeline(t.Context(), v, one, p); return err },
		"effects": func(p index.PageRequest) error {
			_, _, err := effects.ListPairs(t.Context(), v, effects.Query{Variable: "model", A: "m", B: "n"}, p)
			return err
		},
		"effects of a number": func(p index.PageRequest) error {
			_, _, err := effects.ListPairs(t.Context(), v, effects.Query{Variable: "seed", A: "1", B: "2"}, p)
			return err
		},
	} {
		require.NoError(t, list(index.PageRequest{Limit: 9}), name)
		require.ErrorIs(t, list(index.PageRequest{Limit: 9, After: []byte("x")}), index.ErrInvalidPosition, name)
	}
	for name, position := range map[string][]byte{"none": {}, "an unknown list": {3}, "half a position": {0, 1}} {
		_, _, err := groups.ListRanked(t.Context(), v, groups.RankingByFlips, groups.Query{GroupBy: "model"}, index.PageRequest{Limit: 9, After: position})
		require.ErrorIs(t, err, index.ErrInvalidPosition, name)
	}
	for name, position := range map[string][]byte{"beyond": rowstore.AppendSeq(nil, 9), "of another group": rowstore.AppendSeq(nil, 2)} {
		_, _, err := groups.ListOutputs(t.Context(), v, one, index.PageRequest{Limit: 9, After: position})
		require.ErrorIs(t, err, index.ErrInvalidPosition, name)
	}
	at := rowstore.AppendSeq(rowstore.AppendSeq(rowstore.AppendSeq(nil, 3), 0), 0)
	for _, variable := range []string{"model", "seed"} {
		_, _, err := effects.ListPairs(t.Context(), v, effects.Query{Variable: variable, A: "m", B: "n"}, index.PageRequest{Limit: 9, After: at})
		require.ErrorIs(t, err, index.ErrInvalidPosition, "run 3 is not the first of its ipc_id")
	}
}

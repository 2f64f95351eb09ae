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

// ran is an IPC record of the input "why?" under some conditions.
func ran(t tester, model, output, more string) string {
	t.Helper()
	return posted(t, record.IPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":9,`+
		`"temperature":0.7,"model":%q,"output":%q%s}`, model, output, more))
}

// groupOfModel is the group of a model's live runs.
func groupOfModel(t *testing.T, v *index.View, model string) groups.Group {
	t.Helper()
	g, found, err := groups.Get(t.Context(), v, groups.RunQuery{Value: records.Value{Name: "model", Text: model}, Any: false})
	require.NoError(t, err)
	require.True(t, found)
	return g
}

func TestAGroupCountsItsOutputs(t *testing.T) {
	f, _ := folded(t,
		ran(t, "m", "yes", ""), // 1
		ran(t, "m", "no", ""),  // 2
		ran(t, "m", "no", ""),  // 3
		ran(t, "m", "yes", ""), // 4
		ran(t, "m", "no", ""),  // 5
		ran(t, "n", "no", ""),  // 6
	)
	g := groupOfModel(t, viewed(t, f, 7), "m")
	require.Equal(t, []uint64{5, 2, 3, 3}, []uint64{g.Runs, g.Outputs, g.Commonest, g.Flips})
	require.InDelta(t, -0.4*math.Log2(0.4)-0.6*math.Log2(0.6), g.Entropy, 1e-9)
	require.Equal(t, []uint64{1, 5}, []uint64{g.First.Seq, g.Last.Seq})

	g = groupOfModel(t, viewed(t, f, 3), "m")
	require.Equal(t, []uint64{2, 2, 1, 1}, []uint64{g.Runs, g.Outputs, g.Commonest, g.Flips})
	require.Equal(t, 1.0, g.Entropy)
}

// A run that is withdrawn leaves its groups as if it had never been, and comes back
// to its place.
func TestARunLeavesAndComesBack(t *testing.T) {
	f, _ := folded(t,
		ran(t, "m", "yes", ""),     // 1
		ran(t, "m", "no", ""),      // 2
		ran(t, "m", "yes", ""),     // 3
		restating(2, "failed"),     // 4
		restating(2, "stale"),      // 5
		ran(t, "m", "yes", ""),     // 6
		restating(2, "live"),       // 7
		restating(6, "stale"),      // 8
		restating(1, "failed"),     // 9
		restating(2, "failed"),     // 10
		restating(3, "live"),       // 11: it is
		restating(3, "failed"),     // 12
		restating(99, "failed"),    // 13: there is none
		restating(6, "live"),       // 14
		ran(t, "m", "perhaps", ""), // 15
		restating(15, "live"),      // 16
		restating(15, "unheard"),   // 17
	)
	for size, want := range map[uint64][]uint64{ // runs, outputs, commonest, flips, first, last
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
		g := groupOfModel(t, viewed(t, f, size), "m")
		require.Equal(t, want, []uint64{g.Runs, g.Outputs, g.Commonest, g.Flips, g.First.Seq, g.Last.Seq}, "size %d", size)
	}
	_, found, err := groups.Get(t.Context(), viewed(t, f, 14), groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, Any: false})
	require.NoError(t, err)
	require.False(t, found)
	g, found, err := groups.Get(t.Context(), viewed(t, f, 14), groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, Any: true})
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []uint64{4, 2, 3, 2}, []uint64{g.Runs, g.Outputs, g.Commonest, g.Flips})
}

// Drift is counted once, against the run that was live then.
func TestDriftIsCountedByCause(t *testing.T) {
	f, _ := folded(t,
		ran(t, "m", "yes", ""), // 1: the first
		ran(t, "m", "yes", ""), // 2: identical
		ran(t, "n", "yes", ""), // 3: no_effect
		ran(t, "m", "no", ""),  // 4: model
		restating(4, "failed"), // 5
		ran(t, "m", "no", `,"environment":{"model_digest":"d"}`), // 6: model, against 3
		restating(6, "quarantined"),                              // 7
		restating(6, "live"),                                     // 8
		ran(t, "m", "x", `,"environment":{"model_digest":"d"}`),  // 9: stochastic
		ran(t, "m", "y", `,"environment":{"model_digest":"e"}`),  // 10: model_internal
		ran(t, "m", "z", ""),                                     // 11: stochastic_or_model_internal
	)
	got := make(map[string]uint64)
	for s, n := range countsOf(f) {
		if s.Metric == counters.DriftTotal && n > 0 {
			got[s.Labels[0]] = n
		}
	}
	require.Equal(t, map[string]uint64{"identical": 1, "no_effect": 1, "model": 2, "stochastic": 1, "model_internal": 1,
		"stochastic_or_model_internal": 1}, got)
	for _, cause := range drift.Causes {
		require.Contains(t, countsOf(f), counters.SeriesOf(counters.DriftTotal, string(cause)))
	}
}

// Runs take part in effects whose ipc_id is the hash of their other fields, whoever
// claimed it before; a claim that nothing supports never does.
func TestEffectsOfClaimedIDs(t *testing.T) {
	idOf := func(model string) string {
		f, _ := folded(t, ran(t, model, "yes", ""))
		r, err := records.ReadIPCRecord(t.Context(), viewed(t, f, 2), 1)
		require.NoError(t, err)
		return string(r.IPCID)
	}
	claim := func(id, output string) string { // of a record without seed, from which no ipc_id follows
		return posted(t, record.IPCRecord, fmt.Sprintf(`{"ipc_id":%q,"payload":{"q":"other"},"system_prompt":"kind","max_tokens":9,`+
			`"temperature":0.7,"model":"n","output":%q}`, id, output))
	}
	f, log := folded(t,
		claim(idOf("n"), "claimed"), // 1
		ran(t, "m", "yes", ""),      // 2
		ran(t, "n", "no", ""),       // 3
		ran(t, "m", "no", ""),       // 4
		claim(idOf("o"), "claimed"), // 5
		claim(idOf("m"), "late"),    // 6
	)
	effect := func(size uint64, a, b string) (found [][2]uint64) {
		for _, pair := range pages(t, 1, func(p index.Page) ([]effects.Pair, []byte, error) {
			return effects.List(t.Context(), viewed(t, f, size), effects.Query{Variable: "model", A: a, B: b}, p)
		}) {
			found = append(found, [2]uint64{pair.A.Seq, pair.B.Seq})
		}
		return found
	}
	require.Nil(t, effect(3, "m", "n"), "nothing shows yet what the claimed ipc_id is")
	require.Equal(t, [][2]uint64{{2, 3}}, effect(4, "m", "n"), "a mere claim does not displace a run")
	require.Equal(t, [][2]uint64{{2, 3}}, effect(log.head.Size, "m", "n"))
	require.Equal(t, [][2]uint64{{3, 2}}, effect(log.head.Size, "n", "m"))
	require.Nil(t, effect(log.head.Size, "m", "o"))
	require.Nil(t, effect(log.head.Size, "o", "m"))
}

// A record that claims the ipc_id of another's fields does not come between runs.
func TestEffectsSkipMereClaims(t *testing.T) {
	y := posted(t, record.IPCRecord, `{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":9,"temperature":0.7,"model":"m2","output":"same"}`)
	f, _ := folded(t, y)
	of, err := records.ReadIPCRecord(t.Context(), viewed(t, f, 2), 1)
	require.NoError(t, err)
	claiming := fmt.Sprintf(`{"ipc_id":%q,"payload":{"q":"else"},"system_prompt":"kind","max_tokens":9,"temperature":0.7,"model":"zzz","output":"other"}`, of.IPCID)
	z := posted(t, record.IPCRecord, claiming)
	f, log := folded(t, z, ran(t, "m1", "same", ""), y, z, ran(t, "m1", "new", ""), y, restating(6, "failed"), y)
	v := viewed(t, f, log.head.Size)
	q := effects.Query{Variable: "model", A: "m1", B: "m2"}
	pairs := func() (found [][2]uint64) {
		for _, pair := range pages(t, 1, func(p index.Page) ([]effects.Pair, []byte, error) { return effects.List(t.Context(), v, q, p) }) {
			found = append(found, [2]uint64{pair.A.Seq, pair.B.Seq})
		}
		return found
	}
	require.Equal(t, [][2]uint64{{2, 3}, {5, 8}}, pairs())
	totals, err := effects.Count(t.Context(), v, q, nil)
	require.NoError(t, err)
	require.Equal(t, effects.Totals{Pairs: 2, Changed: 1, Unchanged: 1, AsOf: v.Size()}, totals)
	q.Any = true
	require.Equal(t, [][2]uint64{{2, 3}, {5, 6}}, pairs())
}

// Groups of several runs are found among many of one without a walk over these, and a
// ranking goes on with all others.
func TestGroupsOfSeveralRunsAmongMany(t *testing.T) {
	var bodies []string
	for n := range 500 {
		bodies = append(bodies, ran(t, fmt.Sprint("single ", n), "yes", ""))
	}
	bodies = append(bodies, ran(t, "steady", "yes", ""), ran(t, "changing", "yes", ""), ran(t, "steady", "yes", ""), ran(t, "changing", "no", ""))
	f, log := folded(t, bodies...)
	for name, c := range map[string]struct {
		ranking groups.Ranking
		query   groups.Query
		want    []string
	}{
		"runs":    {groups.RankedRuns, groups.Query{By: "model", MinRuns: 2}, []string{"changing", "steady"}},
		"outputs": {groups.RankedStability, groups.Query{By: "model", MinOutputs: 2}, []string{"changing"}},
		"flips":   {groups.RankedFlips, groups.Query{By: "model", MinRuns: 2}, []string{"changing", "steady"}},
		"recent":  {groups.RankedRecent, groups.Query{By: "model", MinRuns: 2, Bounds: index.Bounds{Until: new(time.UnixMicro(504))}}, []string{"steady"}},
	} {
		v := viewed(t, f, log.head.Size)
		rows, next, err := groups.ListRanked(t.Context(), v, c.ranking, c.query, index.Page{Limit: 5})
		require.NoError(t, err, name)
		require.Nil(t, next, name)
		var got []string
		for _, row := range rows {
			got = append(got, row.Value)
		}
		require.ElementsMatch(t, c.want, got, name)
		require.Less(t, v.Touched(), 40, name)
	}
	v := viewed(t, f, log.head.Size)
	for _, ranking := range []groups.Ranking{groups.RankedRecent, groups.RankedRuns, groups.RankedFlips, groups.RankedStability} {
		all := pages(t, 7, func(p index.Page) ([]groups.Group, []byte, error) {
			before := v.Touched()
			rows, next, err := groups.ListRanked(t.Context(), v, ranking, groups.Query{By: "model"}, p)
			require.LessOrEqual(t, v.Touched()-before, 7*20+10)
			return rows, next, err
		})
		require.Len(t, all, 502, "%d", ranking)
		require.ElementsMatch(t, []string{"changing", "steady"}, []string{all[0].Value, all[1].Value})
		require.Equal(t, "single 499", all[2].Value)
	}
}

func TestPositionsOfOtherQueries(t *testing.T) {
	f, _ := folded(t, ran(t, "m", "yes", ""), ran(t, "n", "no", ""), ran(t, "m", "no", ""))
	v := viewed(t, f, 4)
	one := groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, Any: false}
	for name, list := range map[string]func(index.Page) error{
		"groups": func(p index.Page) error {
			_, _, err := groups.List(t.Context(), v, groups.Query{By: "model"}, p)
			return err
		},
		"ranked": func(p index.Page) error {
			_, _, err := groups.ListRanked(t.Context(), v, groups.RankedRuns, groups.Query{By: "model"}, p)
			return err
		},
		"recent": func(p index.Page) error {
			_, _, err := groups.ListRanked(t.Context(), v, groups.RankedRecent, groups.Query{By: "model"}, p)
			return err
		},
		"runs":     func(p index.Page) error { _, _, err := runs.List(t.Context(), v, one, p); return err },
		"outputs":  func(p index.Page) error { _, _, err := groups.Outputs(t.Context(), v, one, p); return err },
		"timeline": func(p index.Page) error { _, _, err := runs.Timeline(t.Context(), v, one, p); return err },
		"effects": func(p index.Page) error {
			_, _, err := effects.List(t.Context(), v, effects.Query{Variable: "model", A: "m", B: "n"}, p)
			return err
		},
		"effects of a number": func(p index.Page) error {
			_, _, err := effects.List(t.Context(), v, effects.Query{Variable: "seed", A: "1", B: "2"}, p)
			return err
		},
	} {
		require.NoError(t, list(index.Page{Limit: 9}), name)
		require.ErrorIs(t, list(index.Page{Limit: 9, After: []byte("x")}), index.ErrPosition, name)
	}
	for name, position := range map[string][]byte{"none": {}, "a list that is none": {3}, "half a place": {0, 1}} {
		_, _, err := groups.ListRanked(t.Context(), v, groups.RankedFlips, groups.Query{By: "model"}, index.Page{Limit: 9, After: position})
		require.ErrorIs(t, err, index.ErrPosition, name)
	}
	for name, position := range map[string][]byte{"beyond": rowstore.AppendSeq(nil, 9), "of another group": rowstore.AppendSeq(nil, 2)} {
		_, _, err := groups.Outputs(t.Context(), v, one, index.Page{Limit: 9, After: position})
		require.ErrorIs(t, err, index.ErrPosition, name)
	}
	at := rowstore.AppendSeq(rowstore.AppendSeq(rowstore.AppendSeq(nil, 3), 0), 0)
	for _, variable := range []string{"model", "seed"} {
		_, _, err := effects.List(t.Context(), v, effects.Query{Variable: variable, A: "m", B: "n"}, index.Page{Limit: 9, After: at})
		require.ErrorIs(t, err, index.ErrPosition, "run 3 is not the first of its ipc_id")
	}
}

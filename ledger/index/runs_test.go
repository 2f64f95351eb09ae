package index

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// ran is an IPC record of the input "why?" under some conditions.
func ran(t tester, model, output, more string) string {
	t.Helper()
	return posted(t, record.IPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":9,`+
		`"temperature":0.7,"model":%q,"output":%q%s}`, model, output, more))
}

// groupOfModel is the group of a model's live runs.
func groupOfModel(t *testing.T, v *View, model string) Group {
	t.Helper()
	g, found, err := GroupsGet(t.Context(), v, RunQuery{Value{"model", model}, false})
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
	_, found, err := GroupsGet(t.Context(), viewed(t, f, 14), RunQuery{Value{"model", "m"}, false})
	require.NoError(t, err)
	require.False(t, found)
	g, found, err := GroupsGet(t.Context(), viewed(t, f, 14), RunQuery{Value{"model", "m"}, true})
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
		r, err := ReadIPCRecord(t.Context(), viewed(t, f, 2), 1)
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
		for _, pair := range pages(t, 1, func(p Page) ([]EffectPair, []byte, error) {
			return EffectsList(t.Context(), viewed(t, f, size), EffectQuery{Variable: "model", A: a, B: b}, p)
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
	of, err := ReadIPCRecord(t.Context(), viewed(t, f, 2), 1)
	require.NoError(t, err)
	claiming := fmt.Sprintf(`{"ipc_id":%q,"payload":{"q":"else"},"system_prompt":"kind","max_tokens":9,"temperature":0.7,"model":"zzz","output":"other"}`, of.IPCID)
	z := posted(t, record.IPCRecord, claiming)
	f, log := folded(t, z, ran(t, "m1", "same", ""), y, z, ran(t, "m1", "new", ""), y, restating(6, "failed"), y)
	v := viewed(t, f, log.head.Size)
	q := EffectQuery{Variable: "model", A: "m1", B: "m2"}
	pairs := func() (found [][2]uint64) {
		for _, pair := range pages(t, 1, func(p Page) ([]EffectPair, []byte, error) { return EffectsList(t.Context(), v, q, p) }) {
			found = append(found, [2]uint64{pair.A.Seq, pair.B.Seq})
		}
		return found
	}
	require.Equal(t, [][2]uint64{{2, 3}, {5, 8}}, pairs())
	totals, err := EffectsCount(t.Context(), v, q, nil)
	require.NoError(t, err)
	require.Equal(t, EffectTotals{Pairs: 2, Changed: 1, Unchanged: 1, AsOf: v.Size()}, totals)
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
		ranking Ranking
		query   GroupQuery
		want    []string
	}{
		"runs":    {RankedRuns, GroupQuery{By: "model", MinRuns: 2}, []string{"changing", "steady"}},
		"outputs": {RankedStability, GroupQuery{By: "model", MinOutputs: 2}, []string{"changing"}},
		"flips":   {RankedFlips, GroupQuery{By: "model", MinRuns: 2}, []string{"changing", "steady"}},
		"recent":  {RankedRecent, GroupQuery{By: "model", MinRuns: 2, Bounds: Bounds{Until: new(time.UnixMicro(504))}}, []string{"steady"}},
	} {
		v := viewed(t, f, log.head.Size)
		rows, next, err := GroupsListRanked(t.Context(), v, c.ranking, c.query, Page{Limit: 5})
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
	for _, ranking := range []Ranking{RankedRecent, RankedRuns, RankedFlips, RankedStability} {
		all := pages(t, 7, func(p Page) ([]Group, []byte, error) {
			before := v.Touched()
			rows, next, err := GroupsListRanked(t.Context(), v, ranking, GroupQuery{By: "model"}, p)
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
	one := RunQuery{Value{"model", "m"}, false}
	for name, list := range map[string]func(Page) error{
		"groups": func(p Page) error {
			_, _, err := GroupsList(t.Context(), v, GroupQuery{By: "model"}, p)
			return err
		},
		"ranked": func(p Page) error {
			_, _, err := GroupsListRanked(t.Context(), v, RankedRuns, GroupQuery{By: "model"}, p)
			return err
		},
		"recent": func(p Page) error {
			_, _, err := GroupsListRanked(t.Context(), v, RankedRecent, GroupQuery{By: "model"}, p)
			return err
		},
		"runs":     func(p Page) error { _, _, err := RunsList(t.Context(), v, one, p); return err },
		"outputs":  func(p Page) error { _, _, err := GroupsOutputs(t.Context(), v, one, p); return err },
		"timeline": func(p Page) error { _, _, err := RunsTimeline(t.Context(), v, one, p); return err },
		"effects": func(p Page) error {
			_, _, err := EffectsList(t.Context(), v, EffectQuery{Variable: "model", A: "m", B: "n"}, p)
			return err
		},
		"effects of a number": func(p Page) error {
			_, _, err := EffectsList(t.Context(), v, EffectQuery{Variable: "seed", A: "1", B: "2"}, p)
			return err
		},
	} {
		require.NoError(t, list(Page{Limit: 9}), name)
		require.ErrorIs(t, list(Page{Limit: 9, After: []byte("x")}), ErrPosition, name)
	}
	for name, position := range map[string][]byte{"none": {}, "a list that is none": {3}, "half a place": {0, 1}} {
		_, _, err := GroupsListRanked(t.Context(), v, RankedFlips, GroupQuery{By: "model"}, Page{Limit: 9, After: position})
		require.ErrorIs(t, err, ErrPosition, name)
	}
	for name, position := range map[string][]byte{"beyond": rowstore.AppendSeq(nil, 9), "of another group": rowstore.AppendSeq(nil, 2)} {
		_, _, err := GroupsOutputs(t.Context(), v, one, Page{Limit: 9, After: position})
		require.ErrorIs(t, err, ErrPosition, name)
	}
	at := effectPosition{condition: 3}
	for _, variable := range []string{"model", "seed"} {
		_, _, err := EffectsList(t.Context(), v, EffectQuery{Variable: variable, A: "m", B: "n"}, Page{Limit: 9, After: at.append(nil)})
		require.ErrorIs(t, err, ErrPosition, "run 3 is not the first of its ipc_id")
	}
}

// Any tally and facts come back as they were encoded.
func TestGroupEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Uint64Range(1, math.MaxUint64-1).Draw(t, "seq")
		number := rapid.Uint64Range(1, math.MaxInt64)
		drawTally := func(name string) tally {
			runs := number.Draw(t, name)
			outputs := rapid.Uint64Range(1, runs).Draw(t, name)
			commonest := runs
			if outputs > 1 {
				commonest = rapid.Uint64Range(1, runs-1).Draw(t, name)
			}
			c := tally{runs, outputs, commonest, rapid.Uint64Range(0, outputs).Draw(t, name), rapid.Uint64Range(0, runs-1).Draw(t, name), number.Draw(t, name),
				rapid.Uint64Range(1, seq).Draw(t, name), rapid.Uint64Range(1, seq).Draw(t, name), rapid.Uint64Range(1, seq).Draw(t, name)}
			return c
		}
		g := group{seq: seq, flags: byte(rapid.SampledFrom([]int{0, isRecord, isRecord | isRun, isRecord | isRun | bringsOutput, isMarked}).Draw(t, "flags")),
			live: drawTally("live"), outputBefore: rapid.Uint64Range(0, seq-1).Draw(t, "output"),
			conditionBefore: rapid.Uint64Range(0, seq-1).Draw(t, "condition"),
			facts:           rapid.SliceOf(rapid.Byte()).Draw(t, "facts")}
		if g.flags&isRun != 0 {
			if g.output = g.live.output; g.live.last != seq {
				g.output = rapid.Uint64Range(1, seq).Draw(t, "output")
			}
		}
		if rapid.Bool().Draw(t, "gone") {
			g.live = tally{}
		}
		if g.all = g.live; rapid.Bool().Draw(t, "parted") || g.live.runs == 0 {
			g.all = drawTally("all")
			g.all.runs += g.live.runs
			if g.all.outputs == 1 && g.live.runs > 0 {
				g.all.commonest = g.all.runs
			}
			if g.all.last == seq && g.flags&isRun != 0 {
				g.all.output = g.output
			}
		}
		if g.lone() {
			return
		}
		g.conditions = rapid.Uint64Range(0, g.all.runs).Draw(t, "conditions")
		value := g.append(nil)
		got, err := decodeGroup(seq, value)
		require.NoError(t, err)
		require.Equal(t, g, got)
		_, err = decodeGroup(seq, value[:rapid.IntRange(0, len(value)-len(g.facts)-1).Draw(t, "cut")])
		require.ErrorIs(t, err, rowstore.ErrDamaged)
	})
}

func FuzzDecodeGroup(f *testing.F) {
	g := group{seq: 7, flags: isRecord | isRun, output: 5}
	g.all.add(7, 5, 0)
	g.live = g.all
	f.Add(uint64(7), g.append(nil))
	g.follow(9, isRecord)
	g.live = tally{}
	f.Add(uint64(9), g.append(nil))
	f.Fuzz(func(t *testing.T, seq uint64, value []byte) {
		g, err := decodeGroup(seq, value)
		if err != nil {
			require.ErrorIs(t, err, rowstore.ErrDamaged)
			return
		}
		decodeFacts(g.facts) // whatever they are
		again, err := decodeGroup(seq, g.append(nil))
		require.NoError(t, err)
		require.Equal(t, g.live.runs, again.live.runs)
	})
}

// drawnFacts is a run, and what its facts are decoded to.
type drawnFacts struct {
	event.IPC
	decoded event.IPC
}

func TestFactsCompareAsTheirTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([][]byte{nil, {}, []byte("0.7"), []byte("0.70"), []byte(strings.Repeat("x", longestFact)),
			[]byte(strings.Repeat("x", longestFact+1)), []byte(strings.Repeat("y", 64))})
		draw := func(name string) (r drawnFacts) {
			for i, fact := range facts(&r.IPC) {
				*fact = text.Draw(t, fmt.Sprint(name, i))
			}
			r.decoded = decodeFacts(appendFacts(nil, &r.IPC))
			return r
		}
		a, b := draw("a"), draw("b")
		for _, r := range []*drawnFacts{&a, &b} {
			r.OutputHash = []byte("out")
			r.decoded.OutputHash = r.OutputHash
		}
		require.Equal(t, drift.CauseOf(&a.IPC, &b.IPC), drift.CauseOf(&a.decoded, &b.decoded))
	})
}

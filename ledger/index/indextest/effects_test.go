package indextest

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
)

// Count returns the same totals whether or not it starts from known totals at another size. Some
// state changes between the two sizes have a target that is not a run, or whose seq is not below
// the view's size.
func TestEffectTotalsIgnoreInvalidStateChanges(t *testing.T) {
	limited := func(model, output string, tokens int) string {
		return posted(t, record.KindIPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":%d,`+
			`"temperature":0.7,"model":%q,"output":%q}`, tokens, model, output))
	}
	var bodies []string
	for tokens := range 9 { // enough combinations for Count to start from known totals
		bodies = append(bodies, limited("m", "yes", tokens), limited("n", "no", tokens)) // events 1 to 18
	}
	f, log := foldBodies(t, append(bodies,
		stateOf(99, "failed"),     // event 19: its target does not exist
		stateOf(20, "failed"),     // event 20: its target is the event itself
		stateOf(0, "failed"),      // event 21: its target's kind has no state
		stateOf(1, "failed"),      // event 22
		limited("n", "later", 3),  // event 23: the second run of its combination
		limited("m", "later", 3),  // event 24: the second run of its combination
		stateOf(24, "failed"),     // event 25
		stateOf(24, "live"),       // event 26
		stateOf(2, "quarantined"), // event 27
	)...)
	q := effects.Query{Variable: "model", A: "m", B: "n"}
	counted := func(size uint64, known *effects.Totals) effects.Totals {
		totals, err := effects.CountPairs(t.Context(), viewOf(t, f, size), q, known)
		require.NoError(t, err, "as of %d", size)
		return totals
	}
	require.Equal(t, effects.Totals{Pairs: 9, ChangedPairs: 9, TreeSize: 19}, counted(19, nil))
	require.Equal(t, effects.Totals{Pairs: 8, ChangedPairs: 8, TreeSize: 23}, counted(23, nil))
	require.Equal(t, effects.Totals{Pairs: 9, ChangedPairs: 8, UnchangedPairs: 1, TreeSize: 25}, counted(25, nil))
	require.Equal(t, effects.Totals{Pairs: 8, ChangedPairs: 8, TreeSize: 26}, counted(26, nil))
	for size := uint64(19); size <= log.head.Size; size++ {
		for from := uint64(19); from <= log.head.Size; from++ {
			known := counted(from, nil)
			require.Equal(t, counted(size, nil), counted(size, &known), "%d from %d", size, from)
		}
	}
}

// Effects of the input find pairs of runs that are the only ones with their input, and those of inputs
// that have further runs by now.
func TestEffectsOfInputsWithOneRun(t *testing.T) {
	run := func(question, output string) string {
		return posted(t, record.KindIPCRecord, fmt.Sprintf(`{"payload":{"q":%q,"seed":7},"system_prompt":"kind","temperature":0.7,"max_tokens":9,"seed":7,`+
			`"model":"m","labels":{"region":"eu"},"output":%q}`, question, output))
	}
	bodies := []string{
		run("a", "yes"),      // event 1
		run("b", "no"),       // event 2
		stateOf(1, "failed"), // event 3
		run("a", "no"),       // event 4
		run("b", "no"),       // event 5
		stateOf(1, "live"),   // event 6
	}
	f, log := foldBodies(t, bodies...)
	type pairs map[[2]uint64]bool // the seqs of each pair, and whether its output changed
	live := []pairs{{}, {}, {}, {{1, 2}: true}, {}, {{4, 2}: false}, {{4, 2}: false}, {{1, 2}: true, {4, 5}: false}}
	require.Len(t, live, int(log.head.Size)+1)
	last := viewOf(t, f, log.head.Size)
	var inputs [2]event.IPC
	for i := range inputs {
		one, err := records.ReadIPCRecord(t.Context(), last, uint64(i+1))
		require.NoError(t, err)
		inputs[i] = one.IPC
	}
	for _, q := range []effects.Query{
		{Variable: "input", A: string(inputs[0].SeedlessInputHash), B: string(inputs[1].SeedlessInputHash)},
		{Variable: "input_hash", A: string(inputs[0].InputHash), B: string(inputs[1].InputHash)},
	} {
		for size := range log.head.Size + 1 {
			short, _ := foldBodies(t, bodies[:max(1, size)-1]...) // has no later events
			for _, view := range []*index.View{viewOf(t, f, size), viewOf(t, short, size)} {
				got := make(pairs)
				for _, pair := range pages(t, 1, func(p index.PageRequest) ([]effects.Pair, []byte, error) {
					return effects.ListPairs(t.Context(), view, q, p)
				}) {
					got[[2]uint64{pair.A.Seq, pair.B.Seq}] = pair.OutputChanged
				}
				require.Equal(t, live[size], got, "%s as of %d", q.Variable, size)
			}
		}
		q.AnyState = true
		totals, err := effects.CountPairs(t.Context(), viewOf(t, f, 4), q, nil)
		require.NoError(t, err)
		require.Equal(t, effects.Totals{Pairs: 1, ChangedPairs: 1, TreeSize: 4}, totals, q.Variable)
	}
}

// For a label, CountPairsFrom returns the same totals as Count. The events between the two sizes include
// state changes of runs with and without the label.
func TestEffectTotalsOfLabels(t *testing.T) {
	labelled := func(label, output string, tokens int) string {
		return posted(t, record.KindIPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":%d,`+
			`"temperature":0.7,"model":"m",%s"output":%q}`, tokens, label, output))
	}
	const a, b = `"labels":{"region":"eu"},`, `"labels":{"region":"us","other":"eu"},`
	var bodies []string
	for tokens := range 9 {
		bodies = append(bodies, labelled(a, "yes", tokens), labelled(b, "no", tokens)) // events 1 to 18
	}
	f, log := foldBodies(t, append(bodies,
		labelled("", "no", 1), // event 19
		stateOf(19, "failed"), // event 20: its target lacks the label
		stateOf(1, "failed"),  // event 21
		labelled(a, "no", 0),  // event 22
		stateOf(1, "live"),    // event 23
		labelled(b, "yes", 0), // event 24
		stateOf(2, "stale"),   // event 25
		stateOf(22, "stale"),  // event 26
	)...)
	q := effects.Query{Variable: "label:region", A: "eu", B: "us"}
	counted := func(size uint64, known *effects.Totals) effects.Totals {
		view := viewOf(t, f, size)
		if known != nil {
			totals, err := effects.CountPairsFrom(t.Context(), view, q, *known)
			require.NoError(t, err)
			return totals
		}
		totals, err := effects.CountPairs(t.Context(), view, q, nil)
		require.NoError(t, err)
		return totals
	}
	require.Equal(t, effects.Totals{Pairs: 9, ChangedPairs: 9, TreeSize: 19}, counted(19, nil))
	require.Equal(t, effects.Totals{Pairs: 8, ChangedPairs: 8, TreeSize: 22}, counted(22, nil))
	require.Equal(t, effects.Totals{Pairs: 9, ChangedPairs: 8, UnchangedPairs: 1, TreeSize: 23}, counted(23, nil))
	require.Equal(t, effects.Totals{Pairs: 10, ChangedPairs: 10, TreeSize: 25}, counted(25, nil))
	require.Equal(t, effects.Totals{Pairs: 9, ChangedPairs: 8, UnchangedPairs: 1, TreeSize: 26}, counted(26, nil))
	for size := uint64(1); size <= log.head.Size; size++ {
		for from := uint64(1); from <= log.head.Size; from++ {
			known := counted(from, nil)
			require.Equal(t, counted(size, nil), counted(size, &known), "%d from %d", size, from)
		}
	}
}

// The effect of a payload member is found in pairs of runs that agree in everything else, including
// all other members. A run's seed does not count as a member, even if the payload contains it.
func TestEffectsOfPayloadMembers(t *testing.T) {
	run := func(payload, seed, output string) string {
		return posted(t, record.KindIPCRecord, fmt.Sprintf(`{"payload":%s,%s"system_prompt":"kind","max_tokens":9,"temperature":0.7,"model":"m","output":%q}`, payload, seed, output))
	}
	const seed = `"seed":7,`
	bodies := []string{
		run(`{"a":1,"b":1,"seed":7}`, "", "yes"),        // event 1
		run(`{"a":2,"b":1}`, seed, "no"),                // event 2: forms a pair with event 1
		run(`{"a":1,"b":1}`, seed, "well"),              // event 3: the second run with the same values as event 1
		run(`{"a":2,"b":1,"seed":7}`, "", "well"),       // event 4: forms a pair with event 3
		run(`{"a":1,"b":2}`, seed, "yes"),               // event 5: another member differs
		run(`{"a":2,"b":1}`, `"seed":8,`, "yes"),        // event 6: the seed differs
		run(`{"a":2,"b":1,"c":null}`, seed, "yes"),      // event 7: has one more member
		run(`{"b":1}`, seed, "yes"),                     // event 8: lacks member a
		run(`{"a":2,"b":1,"seed":8}`, seed, "yes"),      // event 9: the payload's seed differs from the run's seed, so it counts as a member
		run(`{"a":2.0,"b":1}`, seed, "yes"),             // event 10: a different value of the member
		run(`{"a":1,"b":1}`, `"seed":null,`, "yes"),     // event 11: no seed
		run(`{"a":2,"b":1}`, `"seed":null,`, "no"),      // event 12: forms a pair with event 11
		run(`{"a":1,"b":1,"seed":0}`, "", "yes"),        // event 13
		run(`{"seed":0,"b":1,"a":1}`, "", "yes"),        // event 14: the second run with the same values as event 13
		run(`{"a":2,"b":1,"seed":0}`, "", "yes"),        // event 15: forms a pair with event 13
		run(`{"a":1,"b":{"c":[1,2]},"seed":0}`, "", ""), // event 16: forms no pair
	}
	f, log := foldBodies(t, bodies...)
	digest := func(value string) string {
		return string(new(members.Secret).AppendDigest(nil, []byte("/a"), []byte(value)))
	}
	for _, reversed := range []bool{false, true} {
		q := effects.Query{Variable: "/a", A: digest("1"), B: digest("2")}
		want := map[[2]uint64]bool{{1, 2}: true, {3, 4}: false, {11, 12}: true, {13, 15}: false}
		if reversed {
			q.A, q.B = q.B, q.A
			want = map[[2]uint64]bool{{2, 1}: true, {4, 3}: false, {12, 11}: true, {15, 13}: false}
		}
		view := viewOf(t, f, log.head.Size)
		got := make(map[[2]uint64]bool)
		for _, pair := range pages(t, 1, func(p index.PageRequest) ([]effects.Pair, []byte, error) {
			return effects.ListPairs(t.Context(), view, q, p)
		}) {
			got[[2]uint64{pair.A.Seq, pair.B.Seq}] = pair.OutputChanged
		}
		require.Equal(t, want, got)
		totals, err := effects.CountPairs(t.Context(), view, q, nil)
		require.NoError(t, err)
		require.Equal(t, effects.Totals{Pairs: 4, ChangedPairs: 2, UnchangedPairs: 2, TreeSize: view.Size()}, totals)
	}
	view := viewOf(t, f, log.head.Size)
	for _, none := range []effects.Query{
		{Variable: "/a", A: digest("1"), B: digest("3")}, {Variable: "/z", A: digest("1"), B: digest("2")}, {Variable: "/seed", A: digest("1"), B: digest("2")},
	} {
		totals, err := effects.CountPairs(t.Context(), view, none, nil)
		require.NoError(t, err)
		require.Equal(t, effects.Totals{TreeSize: view.Size()}, totals)
	}
}

// A page of the effects of a payload member reads at most 20 keys per row, no matter how many
// members the payloads have.
func TestEffectsOfMembersReadFewKeys(t *testing.T) {
	const runs = 400
	var bodies []string
	for n := range runs {
		payload := fmt.Sprintf(`{"a":%d,"q":%d`, n%2, n/2)
		for m := range members.MaxMembers - 2 {
			payload += fmt.Sprintf(`,"m%d":%d`, m, n%4/2)
		}
		bodies = append(bodies, posted(t, record.KindIPCRecord, fmt.Sprintf(`{"payload":%s},"model":"m","output":"o"}`, payload)))
	}
	f, log := foldBodies(t, bodies...)
	view := viewOf(t, f, log.head.Size)
	digest := func(value string) string {
		return string(new(members.Secret).AppendDigest(nil, []byte("/a"), []byte(value)))
	}
	rows := 0
	for page := (index.PageRequest{Limit: 10}); ; {
		before := view.KeysRead()
		pairs, next, err := effects.ListPairs(t.Context(), view, effects.Query{Variable: "/a", A: digest("0"), B: digest("1")}, page)
		require.NoError(t, err)
		require.LessOrEqual(t, view.KeysRead()-before, 20*page.Limit)
		rows += len(pairs)
		if page.After = next; next == nil {
			break
		}
	}
	require.Equal(t, runs/2, rows)
}

// The lists of the combinations with a value equal those of one uninterrupted fold, although they begin
// new version runs at certain events, and the fold stops before and after such an event. Queries
// find all combinations.
func TestListsOfCombinationsInBlocks(t *testing.T) {
	const runs, block = 17_100, 1 << 14
	log, c := newJournal(t, "default"), testConfig(vfs.NewMem())
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	var s *index.Store
	var f *index.Follower
	next := 0
	for _, to := range []int{block - 300, block + 300, runs} {
		var bodies []string
		for ; next < to; next++ {
			bodies = append(bodies, posted(t, record.KindIPCRecord, fmt.Sprintf(
				`{"payload":{"a":%d,"q":%d},"seed":%d,"model":"m","output":"o"}`, next%3, next/3, next/3%700)))
		}
		log.append(bodies...)
		if s != nil {
			require.NoError(t, s.Close())
		}
		s = openTest(t, c)
		f = follow(t, s, log)
		log.catchUp(f)
	}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	requireSame(t, log.refold(), dump(t, s))
	digest := func(value string) string {
		return string(new(members.Secret).AppendDigest(nil, []byte("/a"), []byte(value)))
	}
	view := viewOf(t, f, runs+1)
	totals, err := effects.CountPairs(t.Context(), view, effects.Query{Variable: "/a", A: digest("1"), B: digest("2")}, nil)
	require.NoError(t, err)
	require.Equal(t, effects.Totals{Pairs: runs / 3, UnchangedPairs: runs / 3, TreeSize: runs + 1}, totals)
}

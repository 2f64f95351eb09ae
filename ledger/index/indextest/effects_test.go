package indextest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/effects"
	"colophon/ledger/record"
)

// Totals are computed from those of an earlier or later size, over changes of state whose
// target is not a run, or is at or above the view's size.
func TestEffectTotalsIgnoreInvalidStateChanges(t *testing.T) {
	limited := func(model, output string, tokens int) string {
		return posted(t, record.IPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":%d,`+
			`"temperature":0.7,"model":%q,"output":%q}`, tokens, model, output))
	}
	var bodies []string
	for tokens := range 9 { // as many ipc_ids per model as events between the sizes
		bodies = append(bodies, limited("m", "yes", tokens), limited("n", "no", tokens)) // 1 to 18
	}
	f, log := foldBodies(t, append(bodies,
		stateOf(99, "failed"),     // 19: no such event
		stateOf(20, "failed"),     // 20: itself
		stateOf(0, "failed"),      // 21: a kind without states
		stateOf(1, "failed"),      // 22
		limited("n", "later", 3),  // 23: the second
		limited("m", "later", 3),  // 24: the second
		stateOf(24, "failed"),     // 25
		stateOf(24, "live"),       // 26
		stateOf(2, "quarantined"), // 27
	)...)
	q := effects.Query{Variable: "model", A: "m", B: "n"}
	counted := func(size uint64, known *effects.Totals) effects.Totals {
		totals, err := effects.Count(t.Context(), viewOf(t, f, size), q, known)
		require.NoError(t, err, "as of %d", size)
		return totals
	}
	require.Equal(t, effects.Totals{Pairs: 9, Changed: 9, AsOf: 19}, counted(19, nil))
	require.Equal(t, effects.Totals{Pairs: 8, Changed: 8, AsOf: 23}, counted(23, nil))
	require.Equal(t, effects.Totals{Pairs: 9, Changed: 8, Unchanged: 1, AsOf: 25}, counted(25, nil))
	require.Equal(t, effects.Totals{Pairs: 8, Changed: 8, AsOf: 26}, counted(26, nil))
	for size := uint64(19); size <= log.head.Size; size++ {
		for from := uint64(19); from <= log.head.Size; from++ {
			known := counted(from, nil)
			require.Equal(t, counted(size, nil), counted(size, &known), "%d from %d", size, from)
		}
	}
}

// So are totals of labels, over changes of state of runs with the label and without it.
func TestEffectTotalsOfLabels(t *testing.T) {
	labelled := func(label, output string, tokens int) string {
		return posted(t, record.IPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":%d,`+
			`"temperature":0.7,"model":"m",%s"output":%q}`, tokens, label, output))
	}
	const a, b = `"labels":{"region":"eu"},`, `"labels":{"region":"us","other":"eu"},`
	var bodies []string
	for tokens := range 9 {
		bodies = append(bodies, labelled(a, "yes", tokens), labelled(b, "no", tokens)) // 1 to 18
	}
	f, log := foldBodies(t, append(bodies,
		labelled("", "no", 1), // 19
		stateOf(19, "failed"), // 20: without the label
		stateOf(1, "failed"),  // 21
		labelled(a, "no", 0),  // 22
		stateOf(1, "live"),    // 23
		labelled(b, "yes", 0), // 24
		stateOf(2, "stale"),   // 25
		stateOf(22, "stale"),  // 26
	)...)
	q := effects.Query{Variable: "label:region", A: "eu", B: "us"}
	counted := func(size uint64, known *effects.Totals) effects.Totals {
		view := viewOf(t, f, size)
		if known != nil {
			totals, err := effects.CountFrom(t.Context(), view, q, *known)
			require.NoError(t, err)
			return totals
		}
		totals, err := effects.Count(t.Context(), view, q, nil)
		require.NoError(t, err)
		return totals
	}
	require.Equal(t, effects.Totals{Pairs: 9, Changed: 9, AsOf: 19}, counted(19, nil))
	require.Equal(t, effects.Totals{Pairs: 8, Changed: 8, AsOf: 22}, counted(22, nil))
	require.Equal(t, effects.Totals{Pairs: 9, Changed: 8, Unchanged: 1, AsOf: 23}, counted(23, nil))
	require.Equal(t, effects.Totals{Pairs: 10, Changed: 10, AsOf: 25}, counted(25, nil))
	require.Equal(t, effects.Totals{Pairs: 9, Changed: 8, Unchanged: 1, AsOf: 26}, counted(26, nil))
	for size := uint64(1); size <= log.head.Size; size++ {
		for from := uint64(1); from <= log.head.Size; from++ {
			known := counted(from, nil)
			require.Equal(t, counted(size, nil), counted(size, &known), "%d from %d", size, from)
		}
	}
}

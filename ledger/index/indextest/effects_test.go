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

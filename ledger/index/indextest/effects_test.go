package indextest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/effects"
	"colophon/ledger/record"
)

// Totals are counted on from those of another size, before or after, over changes of
// state that name no run, or a run from the view's size on.
func TestEffectTotalsPassOverStatesOfNothing(t *testing.T) {
	limited := func(model, output string, tokens int) string {
		return posted(t, record.IPCRecord, fmt.Sprintf(`{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":%d,`+
			`"temperature":0.7,"model":%q,"output":%q}`, tokens, model, output))
	}
	var bodies []string
	for tokens := range 9 { // as many ipc_ids of a model as events may lie between sizes
		bodies = append(bodies, limited("m", "yes", tokens), limited("n", "no", tokens)) // 1 to 18
	}
	f, log := folded(t, append(bodies,
		restating(99, "failed"),     // 19: there is none
		restating(20, "failed"),     // 20: itself
		restating(0, "failed"),      // 21: a kind without states
		restating(1, "failed"),      // 22
		limited("n", "later", 3),    // 23: the second
		limited("m", "later", 3),    // 24: the second
		restating(24, "failed"),     // 25
		restating(24, "live"),       // 26
		restating(2, "quarantined"), // 27
	)...)
	q := effects.Query{Variable: "model", A: "m", B: "n"}
	counted := func(size uint64, known *effects.Totals) effects.Totals {
		totals, err := effects.Count(t.Context(), viewed(t, f, size), q, known)
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

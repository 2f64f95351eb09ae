package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
)

// The latest totals are kept, each under its own ledger, size and query.
func TestEffectTotalsAreKept(t *testing.T) {
	var kept effectTotals
	keyOf := func(size int) totalsKey {
		return totalsKey{"default", uint64(size), index.EffectQuery{Variable: "model", A: "a", B: "b"}}
	}
	for size := range keptTotals + 2 {
		_, found := kept.find(keyOf(size))
		require.False(t, found)
		kept.keep(keyOf(size), index.EffectTotals{Pairs: uint64(size)})
		kept.keep(keyOf(size), index.EffectTotals{Pairs: uint64(size)})
	}
	require.Len(t, kept.kept, keptTotals)
	require.Len(t, kept.keys, keptTotals)
	for size := range keptTotals + 2 {
		totals, found := kept.find(keyOf(size))
		require.Equal(t, size >= 2, found)
		if found {
			require.Equal(t, uint64(size), totals.Pairs)
		}
	}
	other := keyOf(keptTotals)
	other.query.Any = true
	_, found := kept.find(other)
	require.False(t, found)
}

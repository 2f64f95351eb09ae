package effects

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cache keeps the totals for the latest maxTotals combinations of a ledger and a query.
func TestTotalsAreKept(t *testing.T) {
	var kept Cache
	keyOf := func(n int) totalsKey {
		return totalsKey{"default", Query{Variable: "model", A: "a", B: fmt.Sprint(n)}}
	}
	for n := range maxTotals + 2 {
		require.Nil(t, kept.find(keyOf(n)))
		kept.keep(keyOf(n), Totals{Pairs: 1, TreeSize: 7})
		kept.keep(keyOf(n), Totals{Pairs: uint64(n), TreeSize: 8})
	}
	require.Len(t, kept.kept, maxTotals)
	require.Len(t, kept.keys, maxTotals)
	for n := range maxTotals + 2 {
		totals := kept.find(keyOf(n))
		require.Equal(t, n >= 2, totals != nil)
		if totals != nil {
			require.Equal(t, Totals{Pairs: uint64(n), TreeSize: 8}, *totals)
		}
	}
	other := keyOf(maxTotals)
	other.query.AnyState = true
	require.Nil(t, kept.find(other))
}

package seqs

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSetEqualsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, model := new(Set), make(map[uint64]bool)
		near := rapid.Uint64Range(0, 3*blockSeqs)
		for _, seq := range rapid.SliceOf(rapid.OneOf(near, near, rapid.Uint64())).Draw(t, "seqs") {
			set.Add(seq)
			model[seq] = true
			require.True(t, set.Has(seq))
			require.Equal(t, model[seq+1], set.Has(seq+1))
		}
		require.Equal(t, slices.Sorted(maps.Keys(model)), slices.Collect(set.All()))
		require.EqualValues(t, len(model), set.Len())
	})
}

func TestSetEnds(t *testing.T) {
	set := new(Set)
	require.False(t, set.Has(0))
	for _, seq := range []uint64{math.MaxUint64, 0, blockSeqs - 1, blockSeqs} {
		set.Add(seq)
	}
	require.Equal(t, []uint64{0, blockSeqs - 1, blockSeqs, math.MaxUint64}, slices.Collect(set.All()))
	for seq := range set.All() {
		require.Zero(t, seq)
		break
	}
}

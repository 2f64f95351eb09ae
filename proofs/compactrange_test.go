package proofs

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each subtree of the compact range has the root that the definition gives, and the size
// determines its leaves.
func TestCompactRangeEqualsModel(t *testing.T) {
	const most = 1100
	leaves := testLeaves(most)
	tree, _ := grow(t, 0, nil)
	for n := 0; ; n++ {
		want := []Hash{}
		for before := 0; before < n; {
			width := 1 << (bits.Len(uint(n-before)) - 1)
			want = append(want, modelRoot(leaves[before:before+width]))
			before += width
		}
		require.Equal(t, want, tree.Snapshot().CompactRange(), "size %d", n)
		if n == most {
			return
		}
		tree.Append(leaves[n])
	}
}

// The same holds for trees with complete tiles on several levels, opened from their tiles.
func TestCompactRangeOfATallTree(t *testing.T) {
	const size = 1<<16 + 1<<9 + 1<<8 + 3
	grown, store := grow(t, size, nil)
	opened, err := OpenTree(size, store.read, nil)
	require.NoError(t, err)
	subtrees := opened.Snapshot().CompactRange()
	require.Len(t, subtrees, 5)
	require.Equal(t, grown.Snapshot().CompactRange(), subtrees)
	prover := NewProver(grown.Snapshot(), nil, store.read)
	first, err := prover.Root(1 << 16)
	require.NoError(t, err)
	require.Equal(t, first, subtrees[0])
	root := subtrees[4]
	for i := 3; i >= 0; i-- {
		root = NodeHash(subtrees[i], root)
	}
	require.Equal(t, grown.Root(), root)
}

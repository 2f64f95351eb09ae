package proofs

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// VerifyInclusion and VerifyConsistency accept only the correct leaf, index, path, and roots.
func TestVerifyRefusesChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(2, 300).Draw(r, "size")
		m := rapid.IntRange(0, n-1).Draw(r, "index")
		size, index := uint64(n), uint64(m)
		leaves := testLeaves(n)
		root := modelRoot(leaves)
		path := modelPath(m, leaves)
		bit := rapid.IntRange(0, 8*HashSize-1).Draw(r, "bit")
		at := rapid.IntRange(0, len(path)-1).Draw(r, "at")
		changed := func(h Hash) Hash { h[bit/8] ^= 1 << (bit % 8); return h }
		changedPath := slices.Clone(path)
		changedPath[at] = changed(path[at])

		require.NoError(r, VerifyInclusion(leaves[m], index, size, path, root))
		require.ErrorIs(r, VerifyInclusion(changed(leaves[m]), index, size, path, root), ErrInclusion)
		require.ErrorIs(r, VerifyInclusion(leaves[m], index, size, path, changed(root)), ErrInclusion)
		require.ErrorIs(r, VerifyInclusion(leaves[m], index^1, size, path, root), ErrInclusion)
		require.ErrorIs(r, VerifyInclusion(leaves[m], index, size, changedPath, root), ErrInclusion)
		require.ErrorIs(r, VerifyInclusion(leaves[m], index, size, path[1:], root), ErrInclusion)
		require.ErrorIs(r, VerifyInclusion(leaves[m], index, size, append(slices.Clone(path), root), root), ErrInclusion)

		first := index + 1
		if first == size {
			return
		}
		root1 := modelRoot(leaves[:first])
		path = modelConsistency(m+1, leaves, true)
		changedPath = slices.Clone(path)
		at %= len(path)
		changedPath[at] = changed(path[at])
		require.NoError(r, VerifyConsistency(first, size, root1, root, path))
		require.ErrorIs(r, VerifyConsistency(first, size, changed(root1), root, path), ErrConsistency)
		require.ErrorIs(r, VerifyConsistency(first, size, root1, changed(root), path), ErrConsistency)
		require.ErrorIs(r, VerifyConsistency(first, size, root1, root, changedPath), ErrConsistency)
		require.ErrorIs(r, VerifyConsistency(first, size, root1, root, path[1:]), ErrConsistency)
		require.ErrorIs(r, VerifyConsistency(first, size, root1, root, nil), ErrConsistency)
	})
}

func TestVerifyEdges(t *testing.T) {
	leaf := testLeaf(0)
	require.NoError(t, VerifyInclusion(leaf, 0, 1, nil, leaf))
	require.ErrorIs(t, VerifyInclusion(leaf, 0, 0, nil, EmptyRoot()), ErrInclusion)
	require.ErrorIs(t, VerifyInclusion(leaf, 1, 1, nil, leaf), ErrInclusion)
	long := make([]Hash, 1000)
	require.ErrorIs(t, VerifyInclusion(leaf, 0, 1<<64-1, long, leaf), ErrInclusion)
	require.ErrorIs(t, VerifyConsistency(1, 1<<64-1, leaf, leaf, long), ErrConsistency)

	require.NoError(t, VerifyConsistency(1, 1, leaf, leaf, nil))
	require.ErrorIs(t, VerifyConsistency(1, 1, leaf, EmptyRoot(), nil), ErrConsistency)
	require.ErrorIs(t, VerifyConsistency(1, 1, leaf, leaf, []Hash{leaf}), ErrConsistency)
	require.ErrorIs(t, VerifyConsistency(2, 1, leaf, leaf, nil), ErrRange)
	// The merkle library itself would accept an empty proof from size 0.
	require.ErrorIs(t, VerifyConsistency(0, 5, EmptyRoot(), leaf, nil), ErrRange)
	require.ErrorIs(t, VerifyConsistency(0, 0, EmptyRoot(), EmptyRoot(), nil), ErrRange)
}

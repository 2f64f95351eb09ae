package proofs

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// requireProofs compares some of the prover's proofs with proofs computed by the model.
func requireProofs(t require.TestingT, p *Prover, leaves []Hash) {
	n := len(leaves)
	for _, size := range []int{1, n / 3, n / 2, n - 1, n} {
		if size < 1 || size > n {
			continue
		}
		root, err := p.Root(uint64(size))
		require.NoError(t, err)
		require.Equal(t, modelRoot(leaves[:size]), root, "size %d", size)
		for _, index := range []int{0, size / 3, size / 2, size - 1} {
			path, err := p.InclusionProof(uint64(index), uint64(size))
			require.NoError(t, err)
			require.Equal(t, modelPath(index, leaves[:size]), path, "leaf %d of %d", index, size)

			path, err = p.ConsistencyProof(uint64(index+1), uint64(size))
			require.NoError(t, err)
			require.Equal(t, modelConsistency(index+1, leaves[:size], true), path, "sizes %d, %d", index+1, size)
		}
	}
}

// All proofs at all sizes up to 70 equal the model's proofs. A single prover for a tree of 70
// leaves builds them.
func TestSmallProofsEqualModel(t *testing.T) {
	const most = 70
	leaves := testLeaves(most)
	tree, store := grow(t, most, nil)
	p := NewProver(tree.Snapshot(), nil, store.read)
	for size := 1; size <= most; size++ {
		root := modelRoot(leaves[:size])
		for index := range size {
			path, err := p.InclusionProof(uint64(index), uint64(size))
			require.NoError(t, err)
			require.Equal(t, modelPath(index, leaves[:size]), path, "leaf %d of %d", index, size)
			require.NoError(t, VerifyInclusion(leaves[index], uint64(index), uint64(size), path, root))

			first := index + 1
			path, err = p.ConsistencyProof(uint64(first), uint64(size))
			require.NoError(t, err)
			require.Equal(t, modelConsistency(first, leaves[:size], true), path, "sizes %d, %d", first, size)
			require.NoError(t, VerifyConsistency(uint64(first), uint64(size), modelRoot(leaves[:first]), root, path))
		}
	}
}

func TestProofsEqualModelAroundTiles(t *testing.T) {
	sizes := []int{1, 2, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025}
	for _, n := range sizes {
		leaves := testLeaves(n)
		tree, store := grow(t, n, nil)
		p := NewProver(tree.Snapshot(), nil, store.read)
		for _, size := range sizes {
			if size <= n {
				requireProofs(t, NewProver(tree.Snapshot(), NewTileCache(1), store.read), leaves[:size])
			}
		}
		requireProofs(t, p, leaves)
	}
}

// For random leaves and sizes of a tree with three tile levels, sumdb/tlog verifies our proofs, and
// we verify the proofs from sumdb/tlog.
func TestProofsAgreeWithTlog(t *testing.T) {
	const n = 65536 + 700
	cache := NewTileCache(32)
	tree, store := grow(t, n, cache)
	reference := &tlogTree{}
	for i := range n {
		reference.add(t, testLeaf(i))
	}
	p := NewProver(tree.Snapshot(), cache, store.read)
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.OneOf(rapid.Uint64Range(1, n), rapid.Uint64Range(65530, 65542), rapid.Uint64Range(250, 260))
		size := sizes.Draw(r, "size")
		index := rapid.Uint64Range(0, size-1).Draw(r, "index")
		root, err := p.Root(size)
		require.NoError(r, err)
		want, err := tlog.TreeHash(int64(size), reference)
		require.NoError(r, err)
		require.Equal(r, Hash(want), root)

		path, err := p.InclusionProof(index, size)
		require.NoError(r, err)
		require.Equal(r, cap(path), len(path))
		require.NoError(r, tlog.CheckRecord(toTlog(path), int64(size), want, int64(index), tlog.Hash(testLeaf(int(index)))))
		theirs, err := tlog.ProveRecord(int64(size), int64(index), reference)
		require.NoError(r, err)
		require.NoError(r, VerifyInclusion(testLeaf(int(index)), index, size, fromTlog(theirs), root))
		require.Equal(r, fromTlog(theirs), path)

		first := index + 1
		root1, err := p.Root(first)
		require.NoError(r, err)
		path, err = p.ConsistencyProof(first, size)
		require.NoError(r, err)
		require.NoError(r, tlog.CheckTree(toTlog(path), int64(size), want, int64(first), tlog.Hash(root1)))
		treeProof, err := tlog.ProveTree(int64(size), int64(first), reference)
		require.NoError(r, err)
		require.NoError(r, VerifyConsistency(first, size, root1, root, fromTlog(treeProof)))
		require.Equal(r, fromTlog(treeProof), path)
	})
}

func toTlog(hashes []Hash) []tlog.Hash {
	out := make([]tlog.Hash, len(hashes))
	for i, h := range hashes {
		out[i] = tlog.Hash(h)
	}
	return out
}

func fromTlog(hashes []tlog.Hash) []Hash {
	out := make([]Hash, len(hashes))
	for i, h := range hashes {
		out[i] = Hash(h)
	}
	return out
}

func TestProverRange(t *testing.T) {
	tree, store := grow(t, 10, nil)
	p := NewProver(tree.Snapshot(), nil, store.read)
	require.Equal(t, uint64(10), p.Size())
	for _, c := range [][2]uint64{{0, 0}, {10, 10}, {5, 5}, {6, 5}, {0, 11}, {1 << 63, 1<<64 - 1}} {
		_, err := p.InclusionProof(c[0], c[1])
		require.ErrorIs(t, err, ErrRange, "leaf %d of %d", c[0], c[1])
	}
	for _, c := range [][2]uint64{{0, 0}, {0, 10}, {6, 5}, {5, 11}, {11, 11}, {1 << 63, 1<<64 - 1}} {
		_, err := p.ConsistencyProof(c[0], c[1])
		require.ErrorIs(t, err, ErrRange, "sizes %d, %d", c[0], c[1])
	}
	_, err := p.Root(11)
	require.ErrorIs(t, err, ErrRange)
	_, err = p.Tile(0, 1)
	require.ErrorIs(t, err, ErrRange)

	same, err := p.ConsistencyProof(10, 10)
	require.NoError(t, err)
	require.Empty(t, same)
	root, err := p.Root(0)
	require.NoError(t, err)
	require.Equal(t, EmptyRoot(), root)
}

// If a tile is damaged, a prover returns an error instead of a wrong proof.
func TestProverRefusesDamagedTiles(t *testing.T) {
	const n = 65536 + 300
	tree, good := grow(t, n, nil)
	for _, id := range []tileID{{0, 0}, {0, 100}, {0, 255}, {0, 256}, {1, 0}} {
		bad := good.clone()
		bad.values[id] = slices.Clone(bad.values[id])
		bad.values[id][77] ^= 1
		p := NewProver(tree.Snapshot(), nil, bad.read)
		_, err := p.InclusionProof(id.index<<8<<(8*id.level), n)
		require.ErrorIs(t, err, ErrMalformed, "tile %v", id)
		_, err = p.Tile(id.level, id.index)
		require.ErrorContains(t, err, TilePath{Level: id.level, Index: id.index, Width: FullTileWidth}.String())

		delete(bad.values, id)
		_, err = p.InclusionProof(id.index<<8<<(8*id.level), n)
		require.ErrorIs(t, err, errNoTile, "tile %v", id)
	}
	p := NewProver(tree.Snapshot(), nil, good.read)
	for id, value := range good.values {
		got, err := p.Tile(id.level, id.index)
		require.NoError(t, err)
		require.Equal(t, value, got)
	}
}

// TileCache does not exceed its limit, keeps recently used tiles, and returns tiles unchanged.
func TestTileCache(t *testing.T) {
	const limit = 64
	c := NewTileCache(limit)
	kept := tileID{1, 5}
	keptTile := new(tile)
	c.put(kept, keptTile)
	for i := range uint64(10 * limit) {
		c.put(tileID{0, i}, new(tile))
		c.put(tileID{0, i}, new(tile))
		require.Same(t, keptTile, c.get(kept))
	}
	held := 0
	for i := range c.shards {
		s := &c.shards[i]
		require.Len(t, s.slots, len(s.places))
		held += len(s.slots)
		for id, place := range s.places {
			require.Equal(t, id, s.slots[place].id)
		}
	}
	require.LessOrEqual(t, held, limit)
	require.Nil(t, c.get(tileID{0, 0}), "evicted")
	require.NotNil(t, c.get(tileID{0, 10*limit - 1}), "the tile that was added last is kept")
}

// The tree adds each tile that it completes to the cache, so that no reader has to load it.
func TestTreeFillsCache(t *testing.T) {
	const n = 3*FullTileWidth + 5
	cache := NewTileCache(64)
	tree, _ := grow(t, n, cache)
	p := NewProver(tree.Snapshot(), cache, newTileStore().read)
	requireProofs(t, p, testLeaves(n))
}

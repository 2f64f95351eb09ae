package proofs

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

var errNoTile = errors.New("no such tile")

func TestRootsEqualModel(t *testing.T) {
	const most = 600
	leaves := testLeaves(most)
	tree, _ := grow(t, 0, nil)
	for n := range most {
		require.Equal(t, uint64(n), tree.Size())
		require.Equal(t, modelRoot(leaves[:n]), tree.Root(), "size %d", n)
		tree.Append(leaves[n])
	}
}

// After every commit, each stored tile contains the hashes that tlog-tiles prescribes.
func TestTilesEqualDefinition(t *testing.T) {
	const most = 1100
	leaves := testLeaves(most)
	tree, store := grow(t, 0, nil)
	for n := 1; n <= most; n++ {
		tree.Append(leaves[n-1])
		if n%7 != 0 && n%FullTileWidth > 1 {
			continue // combines several appends into one commit
		}
		store.save(tree)
		require.Empty(t, tree.TakeDirtyTiles())
		stored := 0
		for level := range uint8(3) {
			covers := 1 << (TileHeight * level)
			for index := uint64(0); TileWidth(level, index, uint64(n)) > 0; index++ {
				stored++
				width := TileWidth(level, index, uint64(n))
				value, err := store.read(level, index)
				require.NoError(t, err)
				require.Len(t, value, width*HashSize)
				last := int(index)*FullTileWidth + width - 1
				require.Equal(t, modelRoot(leaves[last*covers:(last+1)*covers]), Hash(value[(width-1)*HashSize:]))
			}
		}
		require.Len(t, store.values, stored)
	}
}

func TestOpenTreeEqualsGrown(t *testing.T) {
	const most, more = 1100, 300
	_, all := grow(t, most+more, nil) // its tiles contain more hashes than the smaller trees need
	grown, exact := grow(t, 0, nil)
	for n := range most {
		for _, store := range []*tileStore{all, exact} {
			opened, err := OpenTree(uint64(n), store.read, nil)
			require.NoError(t, err)
			require.Equal(t, grown.Snapshot(), opened.Snapshot(), "size %d", n)
			require.Empty(t, opened.TakeDirtyTiles())
		}
		grown.Append(testLeaf(n))
		exact.save(grown)
	}
	for _, n := range []int{0, 1, 255, 256, 257, 511, 512, 1023, 1024} {
		continued, err := OpenTree(uint64(n), all.read, nil)
		require.NoError(t, err)
		store := newTileStore()
		for i := n; i < most+more; i++ {
			continued.Append(testLeaf(i))
		}
		store.save(continued)
		for id, value := range store.values {
			require.Equal(t, all.values[id], value, "tile %v, opened at %d", id, n)
		}
	}
}

func TestOpenTreeRefuses(t *testing.T) {
	_, store := grow(t, 300, nil)
	damage := func(value []byte) TileReader {
		return func(level uint8, index uint64) ([]byte, error) {
			if level == 0 && index == 1 {
				return value, nil
			}
			return store.read(level, index)
		}
	}
	whole := store.values[tileID{0, 1}]
	for name, value := range map[string][]byte{
		"empty": {}, "short": whole[:43*HashSize], "ragged": whole[:44*HashSize-1],
		"too long": make([]byte, (FullTileWidth+1)*HashSize),
	} {
		_, err := OpenTree(300, damage(value), nil)
		require.ErrorIs(t, err, ErrMalformed, name)
		require.ErrorContains(t, err, "tile/0/001.p/44", name)
	}
	_, err := OpenTree(300, newTileStore().read, nil)
	require.ErrorIs(t, err, errNoTile)
	_, err = OpenTree(MaxTreeSize+1, store.read, nil)
	require.ErrorIs(t, err, ErrRange)
}

// A snapshot never changes, even if the writer continues to append.
func TestSnapshotNeverChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(0, 700).Draw(r, "size")
		more := rapid.IntRange(1, 700).Draw(r, "more")
		tree, store := grow(t, n, nil)
		snapshot := tree.Snapshot()
		before := store.clone()
		for i := range more {
			tree.Append(testLeaf(n + i))
		}
		store.save(tree)
		require.Equal(r, modelRoot(testLeaves(n)), snapshot.Root())
		for _, s := range []*tileStore{before, store} {
			requireProofs(r, NewProver(snapshot, nil, s.read), testLeaves(n))
		}
	})
}

// Readers build and verify proofs of published snapshots while the writer appends. The race
// detector reports any unsafe access.
func TestSnapshotConcurrency(t *testing.T) {
	const commits, batch, readers, rounds = 60, 37, 4, 400
	cache := NewTileCache(4)
	tree, store := grow(t, 1, cache)
	var published atomic.Pointer[Snapshot]
	published.Store(tree.Snapshot())

	var group sync.WaitGroup
	for reader := range readers {
		group.Go(func() {
			for round := range rounds {
				snapshot := published.Load()
				prover := NewProver(snapshot, cache, store.read)
				index := uint64(round*31+reader) % snapshot.Size()
				path, err := prover.InclusionProof(index, snapshot.Size())
				if err == nil {
					err = VerifyInclusion(testLeaf(int(index)), index, snapshot.Size(), path, snapshot.Root())
				}
				if err != nil {
					t.Error(err)
				}
				first := index + 1
				root, err := prover.Root(first)
				if err == nil {
					path, err = prover.ConsistencyProof(first, snapshot.Size())
				}
				if err == nil {
					err = VerifyConsistency(first, snapshot.Size(), root, snapshot.Root(), path)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range commits {
		for range batch {
			tree.Append(testLeaf(int(tree.Size())))
		}
		store.save(tree)
		published.Store(tree.Snapshot())
	}
	group.Wait()
}

// Our roots at sizes around complete tiles match those of sumdb/tlog.
func TestRootsEqualTlog(t *testing.T) {
	tree, _ := grow(t, 0, nil)
	reference := &tlogTree{}
	at := map[int]bool{0: true, 1: true, 2: true, 255: true, 256: true, 257: true, 511: true, 512: true, 513: true,
		65535: true, 65536: true, 65537: true}
	for n := 0; n <= 65537; n++ {
		if at[n] {
			want, err := tlog.TreeHash(int64(n), reference)
			require.NoError(t, err)
			require.Equal(t, Hash(want), tree.Root(), "size %d", n)
		}
		tree.Append(testLeaf(n))
		reference.add(t, testLeaf(n))
	}
}

// tlogTree stores a tree in the same way as sumdb/tlog.
type tlogTree struct {
	size   int64
	hashes []tlog.Hash
}

func (r *tlogTree) add(t testing.TB, leaf Hash) {
	t.Helper()
	hashes, err := tlog.StoredHashesForRecordHash(r.size, tlog.Hash(leaf), r)
	require.NoError(t, err)
	r.hashes = append(r.hashes, hashes...)
	r.size++
}

// ReadHashes implements tlog.HashReader.
func (r *tlogTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = r.hashes[at]
	}
	return out, nil
}

// Each root in the compact range matches the definition. The size of the tree determines which
// leaves each subtree contains.
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

// The compact range is also correct in a tree that has complete tiles on several levels and
// was opened from its tiles.
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

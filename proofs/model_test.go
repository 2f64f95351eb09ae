package proofs

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The functions below are a naive model of RFC 6962, section 2.1. They keep the leaves in a slice
// and apply the formulas of the RFC.

func modelRoot(leaves []Hash) Hash {
	switch n := len(leaves); n {
	case 0:
		return EmptyRoot()
	case 1:
		return leaves[0]
	default:
		k := modelSplit(n)
		return NodeHash(modelRoot(leaves[:k]), modelRoot(leaves[k:]))
	}
}

// modelSplit returns the largest power of two smaller than n.
func modelSplit(n int) int {
	return 1 << (bits.Len(uint(n-1)) - 1)
}

func modelPath(m int, leaves []Hash) []Hash {
	n := len(leaves)
	if n == 1 {
		return []Hash{}
	}
	k := modelSplit(n)
	if m < k {
		return append(modelPath(m, leaves[:k]), modelRoot(leaves[k:]))
	}
	return append(modelPath(m-k, leaves[k:]), modelRoot(leaves[:k]))
}

func modelConsistency(m int, leaves []Hash, whole bool) []Hash {
	n := len(leaves)
	if m == n {
		if whole {
			return []Hash{}
		}
		return []Hash{modelRoot(leaves)}
	}
	k := modelSplit(n)
	if m <= k {
		return append(modelConsistency(m, leaves[:k], whole), modelRoot(leaves[k:]))
	}
	return append(modelConsistency(m-k, leaves[k:], false), modelRoot(leaves[:k]))
}

// testLeaf returns a distinct leaf hash for each index.
func testLeaf(i int) Hash {
	return LeafHash(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

func testLeaves(n int) []Hash {
	leaves := make([]Hash, n)
	for i := range leaves {
		leaves[i] = testLeaf(i)
	}
	return leaves
}

// tileStore holds copies of tiles, like the storage of a ledger.
type tileStore struct {
	mu     sync.Mutex // guards values
	values map[tileID][]byte
}

func newTileStore() *tileStore {
	return &tileStore{values: make(map[tileID][]byte)}
}

// save stores the tiles of t that have changed since the last call to save.
func (s *tileStore) save(t *Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range t.TakeDirtyTiles() {
		s.values[tileID{d.Level, d.Index}] = slices.Clone(d.Hashes)
	}
}

func (s *tileStore) read(level uint8, index uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[tileID{level, index}]
	if !ok {
		return nil, errNoTile
	}
	return value, nil
}

func (s *tileStore) clone() *tileStore {
	return &tileStore{values: maps.Clone(s.values)}
}

// grow returns a tree with n test leaves and a store that contains its tiles.
func grow(t testing.TB, n int, cache *TileCache) (*Tree, *tileStore) {
	t.Helper()
	store := newTileStore()
	tree, err := OpenTree(0, store.read, cache)
	require.NoError(t, err)
	for i := range n {
		tree.Append(testLeaf(i))
	}
	store.save(tree)
	return tree, store
}

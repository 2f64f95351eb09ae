package proofs

import (
	"fmt"
	"math/bits"
)

// TileReader returns the stored form of a tile, which consists of 32-byte hashes. It must return at
// least as many hashes as the size of the tree requires. The caller must not modify the result. A
// TileReader must be safe for concurrent use if the tree or prover that calls it is used
// concurrently.
type TileReader func(level uint8, index uint64) ([]byte, error)

// Tile holds all current hashes of a tile that has changed.
type Tile struct {
	Level  uint8  // 0 for tiles of leaf hashes
	Index  uint64 // position among the tiles of the level, from 0
	Hashes []byte // at most 256 hashes of 32 bytes; must not be modified, because the memory is shared
}

// Tree is the writer's view of the log's tree. It consists of the right edge and the changed tiles.
// It is not safe for concurrent use; readers use a Snapshot.
type Tree struct {
	size uint64
	// edge holds the incomplete tile of each level, or nil if that tile is empty.
	edge  [levels]*tile
	cache *TileCache // receives completed tiles; may be nil

	taken uint64 // size at the last call to TakeDirtyTiles
	done  []Tile // tiles that have been completed since the last call to TakeDirtyTiles
}

// OpenTree reads the right edge of a tree of the given size, which may be at most MaxTreeSize. It does
// not verify anything: the caller must compare Root with a signed checkpoint. The tree adds
// completed tiles to cache, which may be nil.
func OpenTree(size uint64, read TileReader, cache *TileCache) (*Tree, error) {
	if size > MaxTreeSize {
		return nil, fmt.Errorf("%w: a tree of %d leaves is too large; the limit is %d", ErrRange, size, uint64(MaxTreeSize))
	}
	t := &Tree{size: size, cache: cache, taken: size}
	for level := uint8(0); nodesAt(level, size) > 0; level++ {
		nodes := nodesAt(level, size)
		index, width := nodes/FullTileWidth, nodes%FullTileWidth
		if width == 0 {
			continue
		}
		hashes, err := readTile(read, level, index, width)
		if err != nil {
			return nil, err
		}
		t.edge[level], _ = expand(hashes)
	}
	return t, nil
}

// readTile reads a tile and truncates it to the width.
func readTile(read TileReader, level uint8, index, width uint64) ([]byte, error) {
	name := TilePath{Level: level, Index: index, Width: int(width)}
	hashes, err := read(level, index)
	if err != nil {
		return nil, fmt.Errorf("reading the tile %v: %w", name, err)
	}
	n := uint64(len(hashes))
	if n%HashSize != 0 || n < width*HashSize || n > FullTileWidth*HashSize {
		return nil, fmt.Errorf("%w: the tile %v has %d bytes, but %d are needed", ErrMalformed, name, n, width*HashSize)
	}
	return hashes[:width*HashSize], nil
}

// Size returns the number of leaves in the tree.
func (t *Tree) Size() uint64 { return t.size }

// Append adds a leaf hash at index Size.
func (t *Tree) Append(leaf Hash) {
	h := leaf
	for level := uint8(0); ; level++ {
		nodes := nodesAt(level, t.size)
		index, width := nodes/FullTileWidth, nodes%FullTileWidth
		if t.edge[level] == nil {
			t.edge[level] = new(tile)
		}
		edge := t.edge[level]
		root, full := edge.add(width, h)
		if !full {
			break
		}
		t.done = append(t.done, Tile{level, index, edge.hashes(FullTileWidth)})
		t.cache.put(tileID{level, index}, edge)
		t.edge[level] = nil
		h = root
	}
	t.size++
}

// TakeDirtyTiles returns the tiles that have changed since it was last called, each with all of its
// current hashes. This includes tiles that have been completed in the meantime.
func (t *Tree) TakeDirtyTiles() []Tile {
	dirty := t.done
	for level := uint8(0); nodesAt(level, t.size) > 0; level++ {
		nodes := nodesAt(level, t.size)
		if width := nodes % FullTileWidth; width > 0 && nodes != nodesAt(level, t.taken) {
			dirty = append(dirty, Tile{level, nodes / FullTileWidth, t.edge[level].hashes(width)})
		}
	}
	t.done, t.taken = nil, t.size
	return dirty
}

// Root returns the root hash of the tree at its current size.
func (t *Tree) Root() Hash { return t.Snapshot().Root() }

// Snapshot returns an immutable view of the tree for concurrent readers. It copies no tiles.
func (t *Tree) Snapshot() *Snapshot {
	s := &Snapshot{size: t.size, root: EmptyRoot(), edge: t.edge}
	if t.size == 0 {
		return s
	}
	s.folds = make([]Hash, 0, bits.OnesCount64(t.size))
	for rest := t.size; rest != 0; rest &= rest - 1 {
		height := uint(bits.TrailingZeros64(rest))
		h := s.edgeNode(height, t.size>>height-1)
		if len(s.folds) > 0 {
			h = NodeHash(h, s.root)
		}
		s.folds = append(s.folds, h)
		s.root = h
	}
	return s
}

// Snapshot is an immutable view of a Tree at a given size.
type Snapshot struct {
	size uint64
	root Hash
	edge [levels]*tile
	// folds[k] is the root hash of the rightmost n leaves, where n is the sum of the k+1 lowest set
	// bits of size. Proofs need these roots at the tree's incomplete right edge.
	folds []Hash
}

// Size returns the number of leaves in the snapshot.
func (s *Snapshot) Size() uint64 { return s.size }

// Root returns the root hash of the snapshot.
func (s *Snapshot) Root() Hash { return s.root }

// edgeNode returns a node in one of the incomplete tiles.
func (s *Snapshot) edgeNode(height uint, index uint64) Hash {
	r := height % TileHeight
	return s.edge[height/TileHeight].node(r, index%(FullTileWidth>>r))
}

// CompactRange returns the roots of the complete subtrees that make up the tree, the largest
// first. It is empty for the empty tree. Two trees of equal size are equal if and only if
// these roots are equal, so these few hashes commit to all tiles.
func (s *Snapshot) CompactRange() []Hash {
	subtrees := make([]Hash, 0, bits.OnesCount64(s.size))
	for rest := s.size; rest != 0; {
		height := uint(bits.Len64(rest) - 1)
		subtrees = append(subtrees, s.edgeNode(height, s.size>>height-1))
		rest -= 1 << height
	}
	return subtrees
}

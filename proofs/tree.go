package proofs

import (
	"fmt"
	"math/bits"
)

// TileReader reads the stored value of a tile: whole hashes, 32 bytes each, at
// least as many as the tree size in question needs. The caller does not change
// what it returns. Safe for concurrent use where the user of it is.
type TileReader func(level uint8, index uint64) ([]byte, error)

// TileData is the whole present value of a tile that has changed.
type TileData struct {
	Level  uint8
	Index  uint64
	Hashes []byte // 32 bytes a hash, at most 256; shared memory, read only
}

// Tree is the writer's side of the log's tree: its right edge, and the tiles
// that changed. One goroutine owns it and everything in it; what others need
// they get from Snapshot.
type Tree struct {
	size uint64
	// edge has the tile in progress of each level; nil where its width is 0.
	edge  [levels]*tile
	cache *TileCache // where completed tiles go

	taken uint64     // size at the last TakeDirty
	done  []TileData // completed since
}

// OpenTree reads the right edge of a tree of that size (at most MaxSize). What
// is read is not proved until Root is compared with a signed checkpoint. Tiles
// that the tree completes are put into cache, which may be nil.
func OpenTree(size uint64, read TileReader, cache *TileCache) (*Tree, error) {
	if size > MaxSize {
		return nil, fmt.Errorf("%w: tree of %d leaves, at most %d", ErrRange, size, uint64(MaxSize))
	}
	t := &Tree{size: size, cache: cache, taken: size}
	for level := uint8(0); nodesAt(level, size) > 0; level++ {
		nodes := nodesAt(level, size)
		index, width := nodes/FullTile, nodes%FullTile
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

// readTile reads a tile and cuts it to the width that is needed.
func readTile(read TileReader, level uint8, index, width uint64) ([]byte, error) {
	name := TilePath{Level: level, Index: index, Width: int(width)}
	hashes, err := read(level, index)
	if err != nil {
		return nil, fmt.Errorf("read %v: %w", name, err)
	}
	n := uint64(len(hashes))
	if n%HashSize != 0 || n < width*HashSize || n > FullTile*HashSize {
		return nil, fmt.Errorf("%w: %v has %d bytes, want %d", ErrMalformed, name, n, width*HashSize)
	}
	return hashes[:width*HashSize], nil
}

// Size is the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// Append adds a leaf hash at index Size.
func (t *Tree) Append(leaf Hash) {
	h := leaf
	for level := uint8(0); ; level++ {
		nodes := nodesAt(level, t.size)
		index, width := nodes/FullTile, nodes%FullTile
		if t.edge[level] == nil {
			t.edge[level] = new(tile)
		}
		edge := t.edge[level]
		root, full := edge.add(width, h)
		if !full {
			break
		}
		t.done = append(t.done, TileData{level, index, edge.hashes(FullTile)})
		t.cache.put(tileID{level, index}, edge)
		t.edge[level] = nil
		h = root
	}
	t.size++
}

// TakeDirty returns the tiles that changed since the last call, those completed
// on the way included, each with its whole present value.
func (t *Tree) TakeDirty() []TileData {
	dirty := t.done
	for level := uint8(0); nodesAt(level, t.size) > 0; level++ {
		nodes := nodesAt(level, t.size)
		if width := nodes % FullTile; width > 0 && nodes != nodesAt(level, t.taken) {
			dirty = append(dirty, TileData{level, nodes / FullTile, t.edge[level].hashes(width)})
		}
	}
	t.done, t.taken = nil, t.size
	return dirty
}

// Root is the root hash at the present size.
func (t *Tree) Root() Hash { return t.Snapshot().Root() }

// Snapshot is the tree as it is now, for any number of concurrent readers while
// the writer goes on. It copies no tile.
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

// Snapshot is an immutable view of a Tree at one size.
type Snapshot struct {
	size uint64
	root Hash
	edge [levels]*tile
	// folds[k] is the root over the leaves that the lowest k+1 set bits of size
	// count, from the right: what proofs need of the tree's ragged edge.
	folds []Hash
}

// Size is the number of leaves.
func (s *Snapshot) Size() uint64 { return s.size }

// Root is the root hash.
func (s *Snapshot) Root() Hash { return s.root }

// edgeNode is a node that lies in one of the tiles in progress.
func (s *Snapshot) edgeNode(height uint, index uint64) Hash {
	r := height % TileHeight
	return s.edge[height/TileHeight].node(r, index%(FullTile>>r))
}

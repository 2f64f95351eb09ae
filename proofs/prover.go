package proofs

import (
	"fmt"
	"math/bits"
)

// Prover builds proofs from one snapshot of the tree, for the snapshot's size and all smaller
// sizes. It is safe for concurrent use, cheap to create, and never waits for the writer.
type Prover struct {
	snapshot *Snapshot
	cache    *TileCache
	read     TileReader
}

// NewProver returns a prover that looks for nodes first at the snapshot's right edge, then in cache
// (which may be nil), and finally in full tiles that it gets from read. It uses a tile from read
// only if the tile hashes to the node above it.
func NewProver(snapshot *Snapshot, cache *TileCache, read TileReader) *Prover {
	return &Prover{snapshot: snapshot, cache: cache, read: read}
}

// Size returns the size of the snapshot, which is the largest size for which p can build proofs.
func (p *Prover) Size() uint64 { return p.snapshot.size }

// Root returns the root hash of the tree at the given size.
func (p *Prover) Root(size uint64) (Hash, error) {
	switch {
	case size > p.snapshot.size:
		return Hash{}, fmt.Errorf("%w: the root at size %d was requested, but the tree has only %d leaves", ErrRange, size, p.snapshot.size)
	case size == p.snapshot.size:
		return p.snapshot.root, nil
	case size == 0:
		return EmptyRoot(), nil
	}
	return p.fold(size, uint(bits.Len64(size)))
}

// InclusionProof returns the RFC 6962 inclusion proof for the leaf at index in the tree of the
// given size. The proof starts with the leaf's sibling.
func (p *Prover) InclusionProof(index, size uint64) ([]Hash, error) {
	if index >= size || size > p.snapshot.size {
		return nil, fmt.Errorf("%w: there is no inclusion proof for leaf %d at size %d in a tree of %d leaves", ErrRange, index, size, p.snapshot.size)
	}
	return p.path(make([]Hash, 0, pathLength(index, size)), 0, index, size)
}

// ConsistencyProof returns the RFC 6962 proof that the tree of size first is a prefix of the tree
// of size second. The proof is empty if the sizes are equal. If first is 0 it returns
// ErrRange: every tree extends the empty tree, and RFC 6962 defines no proof of that.
func (p *Prover) ConsistencyProof(first, second uint64) ([]Hash, error) {
	if first == 0 || first > second || second > p.snapshot.size {
		return nil, fmt.Errorf("%w: there is no consistency proof from size %d to size %d in a tree of %d leaves", ErrRange, first, second, p.snapshot.size)
	}
	if first == second {
		return []Hash{}, nil
	}
	// The proof is the path to the root from the last complete subtree of the first tree. If that
	// subtree is not the whole first tree, the proof starts with the subtree's root.
	height := uint(bits.TrailingZeros64(first))
	index := first>>height - 1
	proof := make([]Hash, 0, 1+pathLength(first-1, second))
	if index > 0 {
		nodes := nodeReader{prover: p}
		root, err := nodes.node(height, index)
		if err != nil {
			return nil, err
		}
		proof = append(proof, root)
	}
	return p.path(proof, height, index, second)
}

func pathLength(index, size uint64) int {
	inner := bits.Len64(index ^ (size - 1))
	return inner + bits.OnesCount64(index>>inner)
}

// path appends the siblings on the path from a node to the root of the tree of the given size.
func (p *Prover) path(proof []Hash, height uint, index, size uint64) ([]Hash, error) {
	nodes := nodeReader{prover: p}
	for last := (size - 1) >> height; last > 0; height, index, last = height+1, index/2, last/2 {
		sibling := index ^ 1
		var h Hash
		var err error
		switch {
		case sibling > last: // there is no sibling at this height
			continue
		case sibling == last && size&(1<<height-1) != 0: // the sibling is not a complete subtree at this size
			h, err = p.fold(size, height)
		default:
			h, err = nodes.node(height, sibling)
		}
		if err != nil {
			return nil, err
		}
		proof = append(proof, h)
	}
	return proof, nil
}

// fold returns the root over the last (size mod 2^height) leaves of the tree of the given size.
// There must be at least one such leaf.
func (p *Prover) fold(size uint64, height uint) (Hash, error) {
	rest := size & (1<<height - 1)
	if size == p.snapshot.size {
		return p.snapshot.folds[bits.OnesCount64(rest)-1], nil
	}
	var root Hash
	nodes := nodeReader{prover: p}
	for first := true; rest != 0; rest &= rest - 1 {
		height := uint(bits.TrailingZeros64(rest))
		h, err := nodes.node(height, size>>height-1)
		if err != nil {
			return Hash{}, err
		}
		if !first {
			h = NodeHash(h, root)
		}
		root, first = h, false
	}
	return root, nil
}

// nodeReader reads nodes of complete subtrees. It keeps the last tile that it used, so that walking
// up a path looks up each tile only once.
type nodeReader struct {
	prover *Prover
	id     tileID
	tile   *tile
}

// node returns the root of the subtree over leaves [index<<height, (index+1)<<height).
func (n *nodeReader) node(height uint, index uint64) (Hash, error) {
	r := height % TileHeight
	inRow := uint64(FullTileWidth >> r)
	id := tileID{uint8(height / TileHeight), index / inRow}
	if n.tile == nil || n.id != id {
		t, err := n.prover.tile(id)
		if err != nil {
			return Hash{}, err
		}
		n.id, n.tile = id, t
	}
	return n.tile.node(r, index%inRow), nil
}

// Tile returns the hashes in a tile as of the snapshot's size, verified against the tree above the
// tile. The caller must not modify them.
func (p *Prover) Tile(level uint8, index uint64) ([]byte, error) {
	width := TileWidth(level, index, p.snapshot.size)
	if width == 0 {
		return nil, fmt.Errorf("%w: a tree of %[4]d leaves has no tile %[2]d/%[3]d", ErrRange, level, index, p.snapshot.size)
	}
	t, err := p.tile(tileID{level, index})
	if err != nil {
		return nil, err
	}
	return t.hashes(uint64(width)), nil
}

// tile returns the tile with the given ID. The tile must contain at least one hash at the
// snapshot's size.
func (p *Prover) tile(id tileID) (*tile, error) {
	if id.index == nodesAt(id.level, p.snapshot.size)/FullTileWidth {
		return p.snapshot.edge[id.level], nil
	}
	if t := p.cache.get(id); t != nil {
		return t, nil
	}
	t, err := p.load(id)
	if err != nil {
		return nil, err
	}
	p.cache.put(id, t)
	return t, nil
}

// load reads a full tile and verifies it against the tile above.
func (p *Prover) load(id tileID) (*tile, error) {
	hashes, err := readTile(p.read, id.level, id.index, FullTileWidth)
	if err != nil {
		return nil, err
	}
	t, root := expand(hashes)
	above := nodeReader{prover: p}
	want, err := above.node((uint(id.level)+1)*TileHeight, id.index)
	if err != nil {
		return nil, err
	}
	if root != want {
		return nil, fmt.Errorf("%w: the tile %v hashes to %x, but the tile above it contains %x",
			ErrMalformed, TilePath{Level: id.level, Index: id.index, Width: FullTileWidth}, root, want)
	}
	return t, nil
}

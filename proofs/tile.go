package proofs

// A hash tile of level L contains the hashes of up to 256 consecutive nodes of the tree at height
// 8·L (tlog-tiles).
const (
	// TileHeight is the number of tree levels that one tile spans.
	TileHeight = 8
	// FullTileWidth is the number of hashes in a full tile.
	FullTileWidth = 1 << TileHeight
	// MaxTreeSize is the maximum number of leaves in a tree that this package builds.
	MaxTreeSize = 1<<63 - 1
	// levels is the number of tile levels in a tree with MaxTreeSize leaves.
	levels = 64 / TileHeight
)

// TileWidth returns the number of hashes, from 0 to 256, that a tile has in a tree of the given
// size. It returns 0 if the tree does not have the tile.
func TileWidth(level uint8, index, size uint64) int {
	nodes := nodesAt(level, size)
	switch last := nodes / FullTileWidth; {
	case index < last:
		return FullTileWidth
	case index == last:
		return int(nodes % FullTileWidth)
	default:
		return 0
	}
}

// nodesAt returns the number of complete nodes that a tree of the given size has at the height
// where the given tile level begins.
func nodesAt(level uint8, size uint64) uint64 {
	return size >> (uint(level) * TileHeight)
}

// tile is an expanded tile. It contains every complete node below the tile's root, so a proof that
// passes through the tile requires no hash computations. Row 0 contains the tile's own hashes, and
// row r contains up to 256>>r nodes. The root itself is one of the hashes in the tile above.
//
// A tile only grows, and its nodes never change. A reader that knows the tile's width at its
// snapshot can therefore share the tile with the writer.
type tile struct {
	nodes [tileNodes * HashSize]byte
}

const tileNodes = 2*FullTileWidth - 2

// row returns the position of the first node in row r.
func row(r uint) uint64 {
	return 2*FullTileWidth - 2*FullTileWidth>>r
}

func (t *tile) node(r uint, i uint64) Hash {
	at := (row(r) + i) * HashSize
	return Hash(t.nodes[at : at+HashSize])
}

// add stores the hash at position width and computes the nodes that it completes. After the
// 256th hash it returns the tile's root and true.
func (t *tile) add(width uint64, h Hash) (root Hash, full bool) {
	for r := uint(0); r < TileHeight; r++ {
		at := (row(r) + width) * HashSize
		copy(t.nodes[at:at+HashSize], h[:])
		if width%2 == 0 {
			return Hash{}, false
		}
		h = NodeHash(t.node(r, width-1), h)
		width /= 2
	}
	return h, true
}

// hashes returns the stored form of the tile's first width hashes. The result shares the tile's
// memory.
func (t *tile) hashes(width uint64) []byte {
	end := width * HashSize
	return t.nodes[:end:end]
}

// expand builds a tile from its stored form, which consists of at most 256 whole hashes. If the
// tile is full, expand also returns its root.
func expand(hashes []byte) (t *tile, root Hash) {
	t = new(tile)
	for i := uint64(0); i < uint64(len(hashes)/HashSize); i++ {
		root, _ = t.add(i, Hash(hashes[i*HashSize:]))
	}
	return t, root
}

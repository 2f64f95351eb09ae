package index

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// rowCache keeps the newest stretches of the rows that a fold has lately used, by the
// rows' names, in memory that holds no pointers: there are hundreds of thousands, and
// the garbage collector need not look at them. They are in two generations: those used
// since the last turn, and those used between the two turns before. It belongs to the
// follower's goroutine.
type rowCache struct {
	seed       maphash.Seed
	young, old generation
}

// turn makes the young generation the old one, and forgets what was old, unless a quarter
// of its memory is left for the next batch. limit is the bytes that both may take.
func (c *rowCache) turn(limit int) {
	switch {
	case c.young.heads == nil:
		c.seed = maphash.MakeSeed()
	case c.young.used < limit/8*3:
		return
	}
	c.young, c.old = c.old, c.young
	c.young.reset(limit / 2)
}

// full reports whether the young generation has its share of the bytes.
func (c *rowCache) full(limit int) bool { return c.young.used >= limit/2 }

// find is the place of a row among the young ones, to which it comes if it is old; 0 if
// it is not kept.
func (c *rowCache) find(name []byte) place {
	hash := maphash.Bytes(c.seed, name)
	if at := c.young.find(hash, name); at != 0 {
		return at
	}
	at := c.old.find(hash, name)
	if at == 0 {
		return 0
	}
	e := &c.old.entries[at]
	return c.young.keep(hash, name, e.span, c.old.stretchOf(e))
}

// keep keeps the newest stretch of a row, in place of what was kept of it.
func (c *rowCache) keep(name []byte, s span, stretch []byte) place {
	return c.young.keep(maphash.Bytes(c.seed, name), name, s, stretch)
}

// generation is a hash table.
type generation struct {
	heads   []place  // the first entry of each chain; their number is a power of two
	entries []entry  // the first is none
	blocks  [][]byte // names and stretches
	filled  int      // blocks that are in use, the last of them up to
	at      int      // this place
	used    int      // bytes, heads included
}

// place is where a row stands among the entries, up to the next turn; 0 is none.
type place uint32

// entry is one row. Its name stands in a block, and its stretch behind that.
type entry struct {
	span
	next       place // the entry behind it in its chain, 0 for none
	block, at  uint32
	size, room uint32 // the length of the stretch, and what it can be without moving
	tag        uint16 // some bits of the name's hash
	name       uint8  // the length of the name
	changed    bool   // the stretch differs from what was written
}

// tagOf are bits of a hash that have no part in what chain it leads to.
func tagOf(hash uint64) uint16 { return uint16(hash >> 48) }

// span is what a stretch spans: nothing if the row has no version.
type span struct {
	first, last uint64 // the oldest version and the newest
	newest      uint32 // where the newest version's value stands, with its length
	found       bool
}

// spanFrom is the span of a stretch of one version.
func spanFrom(seq uint64) span { return span{first: seq, last: seq, found: true} }

// spanOf is the span of a stretch.
func spanOf(first uint64, encoded []byte) (span, error) {
	s := openStretch(first, encoded)
	for s.next() {
	}
	return span{first, s.seq, uint32(s.at), true}, s.err
}

const (
	entryBytes = int(unsafe.Sizeof(entry{}))
	cacheBlock = 1 << 16
	// usualBytes is about what a row takes, and slackBytes what its stretch can grow
	// before it must move.
	usualBytes = 128
	slackBytes = 8
)

// reset empties a generation and keeps what memory it may need for so many bytes.
func (g *generation) reset(bytes int) {
	heads := 1 << bits.Len(uint(bytes/usualBytes))
	if len(g.heads) != heads {
		*g = generation{heads: make([]place, heads)}
	}
	clear(g.heads)
	g.entries = append(g.entries[:0], entry{})
	kept := g.blocks[:0]
	for _, block := range g.blocks {
		if len(block) == cacheBlock && len(kept)*cacheBlock < bytes {
			kept = append(kept, block)
		}
	}
	clear(g.blocks[len(kept):])
	g.blocks, g.filled, g.at = kept, 0, cacheBlock
	g.used = len(g.heads) * 4
}

func (g *generation) find(hash uint64, name []byte) place {
	if len(g.entries) < 2 {
		return 0
	}
	for at := g.heads[hash&uint64(len(g.heads)-1)]; at != 0; {
		e := &g.entries[at]
		if e.tag == tagOf(hash) && string(g.nameOf(e)) == string(name) {
			return at
		}
		at = e.next
	}
	return 0
}

func (g *generation) nameOf(e *entry) []byte {
	return g.blocks[e.block][e.at : e.at+uint32(e.name)]
}

// stretchOf is the stretch of an entry, which can grow to the room that it has.
func (g *generation) stretchOf(e *entry) []byte {
	from := e.at + uint32(e.name)
	return g.blocks[e.block][from : from+e.size : from+e.room]
}

// writtenBytes is about what the stretch takes in a batch.
func (e *entry) writtenBytes() int {
	return writeBytes + int(e.name) + versionBytes + int(e.size)
}

// newest is the newest version of a row. The value is valid until the row changes.
func (g *generation) newest(at place) (seq uint64, value []byte, found bool) {
	e := &g.entries[at]
	if !e.found {
		return 0, nil, false
	}
	encoded := g.stretchOf(e)[e.newest:]
	size, n := binary.Uvarint(encoded)
	return e.last, encoded[n : n+int(size)], true
}

// keep adds a row, before one of that name if that is there.
func (g *generation) keep(hash uint64, name []byte, s span, stretch []byte) place {
	head := &g.heads[hash&uint64(len(g.heads)-1)]
	g.entries = append(g.entries, entry{next: *head, tag: tagOf(hash), name: uint8(len(name)), span: s})
	g.used += entryBytes
	at := place(len(g.entries) - 1)
	*head = at
	e := &g.entries[at]
	g.move(e, name, stretch, len(stretch)+slackBytes)
	return at
}

// replace gives a row another stretch.
func (g *generation) replace(at place, s span, stretch []byte) {
	e := &g.entries[at]
	e.span = s
	if e.size = uint32(len(stretch)); e.size > e.room {
		g.move(e, g.nameOf(e), stretch, len(stretch)+slackBytes)
	} else {
		copy(g.stretchOf(e), stretch)
	}
}

// takes reports whether a version of an event can be added to the stretch of a row.
func (g *generation) takes(at place, seq uint64) bool {
	e := &g.entries[at]
	return e.found && (e.size < stretchBytes || e.last == seq)
}

// add adds a version to the stretch of a row, in place of one that the same event has
// made, and says by how much that has grown.
func (g *generation) add(at place, seq uint64, value []byte) (grown int) {
	e := &g.entries[at]
	stretch := g.stretchOf(e)
	if seq == e.last {
		stretch = stretch[:e.newest]
	} else {
		stretch = binary.AppendUvarint(stretch, seq-e.last)
		e.last, e.newest = seq, uint32(len(stretch))
	}
	stretch = appendValue(stretch, value)
	grown = len(stretch) - int(e.size)
	if e.size = uint32(len(stretch)); e.size > e.room {
		g.move(e, g.nameOf(e), stretch, 2*len(stretch))
	}
	return grown
}

// move gives an entry a place of its own, with room for so many bytes of stretch.
func (g *generation) move(e *entry, name, stretch []byte, room int) {
	size := len(name) + room
	if g.at+size > cacheBlock {
		g.nextBlock(size)
	}
	e.block, e.at, e.size, e.room = uint32(g.filled-1), uint32(g.at), uint32(len(stretch)), uint32(room)
	block := g.blocks[e.block][g.at:]
	copy(block[copy(block, name):], stretch)
	g.at += size
	g.used += size
}

// nextBlock begins a block, which has room for so many bytes.
func (g *generation) nextBlock(size int) {
	if g.filled == len(g.blocks) {
		g.blocks = append(g.blocks, nil)
	}
	if len(g.blocks[g.filled]) < size {
		g.blocks[g.filled] = make([]byte, max(size, cacheBlock))
	}
	g.filled, g.at = g.filled+1, 0
}

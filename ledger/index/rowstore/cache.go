package rowstore

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// rowCache keeps the newest version runs of the rows that a fold has lately used, by the
// rows' names, in memory that holds no pointers: there are hundreds of thousands, and
// the garbage collector need not look at them. They are in two generations: those used
// since the last turn, and those used between the two turns before. It belongs to the
// follower's goroutine.
type rowCache struct {
	seed              maphash.Seed
	current, previous generation
}

// turn makes the current generation the previous one, and forgets what was in that, unless a quarter
// of its memory is left for the next batch. limit is the bytes that both may take.
func (c *rowCache) rotate(limit int) {
	switch {
	case c.current.heads == nil:
		c.seed = maphash.MakeSeed()
	case c.current.used < limit/8*3:
		return
	}
	c.current, c.previous = c.previous, c.current
	c.current.reset(limit / 2)
}

// full reports whether the current generation has its share of the bytes.
func (c *rowCache) full(limit int) bool { return c.current.used >= limit/2 }

// find is the place of a row among the current ones, to which it comes if it is in the previous ones; 0 if
// it is not kept.
func (c *rowCache) find(name []byte) place {
	hash := maphash.Bytes(c.seed, name)
	if at := c.current.find(hash, name); at != 0 {
		return at
	}
	at := c.previous.find(hash, name)
	if at == 0 {
		return 0
	}
	e := &c.previous.entries[at]
	return c.current.keep(hash, name, e.span, c.previous.runOf(e))
}

// keep keeps the newest version run of a row, in place of what was kept of it.
func (c *rowCache) keep(name []byte, s span, run []byte) place {
	return c.current.keep(maphash.Bytes(c.seed, name), name, s, run)
}

// generation is a hash table.
type generation struct {
	heads   []place  // the first entry of each chain; their number is a power of two
	entries []entry  // the first is none
	blocks  [][]byte // names and version runs
	filled  int      // blocks that are in use, the last of them up to
	at      int      // this place
	used    int      // bytes, heads included
}

// place is where a row stands among the entries, up to the next turn; 0 is none.
type place uint32

// entry is one row. Its name stands in a block, and its version run behind that.
type entry struct {
	span
	next       place // the entry behind it in its chain, 0 for none
	block, at  uint32
	size, room uint32 // the length of the version run, and what it can be without moving
	tag        uint16 // some bits of the name's hash
	name       uint8  // the length of the name
	changed    bool   // the version run differs from what was written
}

// tagOf are bits of a hash that have no part in what chain it leads to.
func tagOf(hash uint64) uint16 { return uint16(hash >> 48) }

// span is what a version run spans: nothing if the row has no version.
type span struct {
	first, last uint64 // the oldest version and the newest
	newest      uint32 // where the newest version's value stands, with its length
	found       bool
}

// spanFrom is the span of a version run of one version.
func spanFrom(seq uint64) span { return span{first: seq, last: seq, found: true} }

// spanOf is the span of a version run.
func spanOf(first uint64, encoded []byte) (span, error) {
	s := openRun(first, encoded)
	for s.next() {
	}
	return span{first, s.Seq, uint32(s.at), true}, s.err
}

const (
	entryBytes = int(unsafe.Sizeof(entry{}))
	cacheBlock = 1 << 16
	// typicalBytes is about what a row takes, and slackBytes what its version run can grow
	// before it must move.
	typicalBytes = 128
	slackBytes   = 8
)

// reset empties a generation and keeps what memory it may need for so many bytes.
func (g *generation) reset(bytes int) {
	heads := 1 << bits.Len(uint(bytes/typicalBytes))
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

// runOf is the version run of an entry, which can grow to the room that it has.
func (g *generation) runOf(e *entry) []byte {
	from := e.at + uint32(e.name)
	return g.blocks[e.block][from : from+e.size : from+e.room]
}

// writtenBytes is about what the version run takes in a batch.
func (e *entry) writtenBytes() int {
	return writeBytes + int(e.name) + VersionBytes + int(e.size)
}

// newest is the newest version of a row. The value is valid until the row changes.
func (g *generation) newest(at place) (seq uint64, value []byte, found bool) {
	e := &g.entries[at]
	if !e.found {
		return 0, nil, false
	}
	encoded := g.runOf(e)[e.newest:]
	size, n := binary.Uvarint(encoded)
	return e.last, encoded[n : n+int(size)], true
}

// keep adds a row, before one of that name if that is there.
func (g *generation) keep(hash uint64, name []byte, s span, run []byte) place {
	head := &g.heads[hash&uint64(len(g.heads)-1)]
	g.entries = append(g.entries, entry{next: *head, tag: tagOf(hash), name: uint8(len(name)), span: s})
	g.used += entryBytes
	at := place(len(g.entries) - 1)
	*head = at
	e := &g.entries[at]
	g.move(e, name, run, len(run)+slackBytes)
	return at
}

// replace gives a row another version run.
func (g *generation) replace(at place, s span, run []byte) {
	e := &g.entries[at]
	e.span = s
	if e.size = uint32(len(run)); e.size > e.room {
		g.move(e, g.nameOf(e), run, len(run)+slackBytes)
	} else {
		copy(g.runOf(e), run)
	}
}

// takes reports whether a version of an event can be added to the version run of a row.
func (g *generation) accepts(at place, seq uint64) bool {
	e := &g.entries[at]
	return e.found && (e.size < runBytes || e.last == seq)
}

// add adds a version to the version run of a row, in place of one that the same event has
// made, and says by how much that has grown.
func (g *generation) add(at place, seq uint64, value []byte) (grown int) {
	e := &g.entries[at]
	run := g.runOf(e)
	if seq == e.last {
		run = run[:e.newest]
	} else {
		run = binary.AppendUvarint(run, seq-e.last)
		e.last, e.newest = seq, uint32(len(run))
	}
	run = appendValue(run, value)
	grown = len(run) - int(e.size)
	if e.size = uint32(len(run)); e.size > e.room {
		g.move(e, g.nameOf(e), run, 2*len(run))
	}
	return grown
}

// move gives an entry a place of its own, with room for so many bytes of version run.
func (g *generation) move(e *entry, name, run []byte, room int) {
	size := len(name) + room
	if g.at+size > cacheBlock {
		g.nextBlock(size)
	}
	e.block, e.at, e.size, e.room = uint32(g.filled-1), uint32(g.at), uint32(len(run)), uint32(room)
	block := g.blocks[e.block][g.at:]
	copy(block[copy(block, name):], run)
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

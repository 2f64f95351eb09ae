package rowstore

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// rowCache caches the newest run of versions of each recently used row, keyed by the row's name.
// Its memory contains no pointers, so that the garbage collector does not have to scan hundreds of
// thousands of them. It has two generations: the rows used since the last rotation, and the rows
// used between the last two rotations. Only the follower's goroutine uses it.
type rowCache struct {
	seed              maphash.Seed
	current, previous generation
}

// rotate makes the current generation the previous one, and drops the rows that were in the
// previous one. It does nothing while at least a quarter of the current generation's memory is
// free for the next batch. limit is the number of bytes that both generations together can use.
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

// full reports whether the current generation has used its half of the limit.
func (c *rowCache) full(limit int) bool { return c.current.used >= limit/2 }

// find returns the place of a row in the current generation. If only the previous generation has
// the row, find moves it to the current one. It returns 0 if the row is not cached.
func (c *rowCache) find(name []byte) place {
	hash := maphash.Bytes(c.seed, name)
	if at := c.current.find(hash, name); at != 0 {
		return at
	}
	at := c.previous.find(hash, name)
	if at == 0 {
		return 0
	}
	e := c.previous.entry(at)
	return c.current.put(hash, name, e.span, c.previous.runOf(e))
}

// put caches a row's newest run of versions, replacing any older run.
func (c *rowCache) put(name []byte, s span, run []byte) place {
	return c.current.put(maphash.Bytes(c.seed, name), name, s, run)
}

// generation is a hash table with chaining.
type generation struct {
	heads   []place   // the first entry of each chain; the length is a power of two
	entries [][]entry // in parts of entriesPerPart entries, so that growing copies no entries; entry 0 is unused
	count   int       // number of entries in use, including entry 0
	blocks  [][]byte  // names and version runs
	filled  int       // number of blocks in use
	at      int       // bytes used in block filled-1
	used    int       // total number of bytes, including heads
}

// place is the index of a row in the entries of a generation. It is valid until the next
// rotation. 0 means that there is no such row.
type place uint32

// entry is one row. Its name is in a block, followed by its version run.
type entry struct {
	span
	next       place // the next entry of the chain; 0 at the end
	block, at  uint32
	size, room uint32 // length of the version run, and the length to which it can grow without being moved
	tag        uint16 // some bits of the name's hash
	name       uint8  // length of the name
	changed    bool   // the version run has changed and is not in the batch or the engine yet
}

// tagOf returns some bits of a hash. The chain is selected by other bits.
func tagOf(hash uint64) uint16 { return uint16(hash >> 48) }

// span describes a version run. It is zero if the row has no versions.
type span struct {
	first, last uint64 // seqs of the oldest and the newest version
	newest      uint32 // offset of the newest version's value, which begins with its length
	found       bool
}

// spanFrom returns the span of a run with one version.
func spanFrom(seq uint64) span { return span{first: seq, last: seq, found: true} }

func spanOf(first uint64, encoded []byte) (span, error) {
	s := openRun(first, encoded)
	for s.next() {
	}
	return span{first, s.Seq, uint32(s.at), true}, s.err
}

const (
	entryBytes     = int(unsafe.Sizeof(entry{}))
	entriesPerPart = 1 << 7
	cacheBlock     = 1 << 16
	// typicalBytes is the approximate number of bytes of memory that a row needs. A version run can
	// grow by slackBytes before it must be moved.
	typicalBytes = 128
	slackBytes   = 8
)

// reset empties the generation. It keeps enough memory to hold the given number of bytes again.
func (g *generation) reset(bytes int) {
	heads := 1 << bits.Len(uint(bytes/typicalBytes))
	if len(g.heads) != heads {
		*g = generation{heads: make([]place, heads)}
	}
	clear(g.heads)
	g.count = 1
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

func (g *generation) entry(at place) *entry { return &g.entries[at/entriesPerPart][at%entriesPerPart] }

func (g *generation) find(hash uint64, name []byte) place {
	if g.count < 2 {
		return 0
	}
	for at := g.heads[hash&uint64(len(g.heads)-1)]; at != 0; {
		e := g.entry(at)
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

// runOf returns the version run of an entry. Its capacity is the entry's room.
func (g *generation) runOf(e *entry) []byte {
	from := e.at + uint32(e.name)
	return g.blocks[e.block][from : from+e.size : from+e.room]
}

// writtenBytes returns the approximate number of bytes that the version run will take in a batch.
func (e *entry) writtenBytes() int {
	return writeBytes + int(e.name) + VersionSize + int(e.size)
}

// newest returns the newest version of a row. The value is valid until the row changes.
func (g *generation) newest(at place) (seq uint64, value []byte, found bool) {
	e := g.entry(at)
	if !e.found {
		return 0, nil, false
	}
	encoded := g.runOf(e)[e.newest:]
	size, n := binary.Uvarint(encoded)
	return e.last, encoded[n : n+int(size)], true
}

// put adds an entry for a row, which hides any older entry with the same name.
func (g *generation) put(hash uint64, name []byte, s span, run []byte) place {
	head := &g.heads[hash&uint64(len(g.heads)-1)]
	at := place(g.count)
	if g.count++; int(at)/entriesPerPart == len(g.entries) {
		g.entries = append(g.entries, make([]entry, entriesPerPart))
	}
	g.used += entryBytes
	e := g.entry(at)
	*e = entry{next: *head, tag: tagOf(hash), name: uint8(len(name)), span: s}
	*head = at
	g.move(e, name, run, len(run)+slackBytes)
	return at
}

// replace replaces the version run of a row. s is the span of the new run.
func (g *generation) replace(at place, s span, run []byte) {
	e := g.entry(at)
	e.span = s
	if e.size = uint32(len(run)); e.size > e.room {
		g.move(e, g.nameOf(e), run, len(run)+slackBytes)
	} else {
		copy(g.runOf(e), run)
	}
}

// accepts reports whether the event at seq can add a version to the version run of a row.
func (g *generation) accepts(at place, seq uint64) bool {
	e := g.entry(at)
	return e.found && (e.size < runBytes || e.last == seq)
}

// add adds a version to the version run of a row, and returns the number of bytes by which the
// run has grown. A second version from the same event replaces the first.
func (g *generation) add(at place, seq uint64, value []byte) (grown int) {
	e := g.entry(at)
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

// move gives an entry new memory, in which its version run can grow to room bytes.
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

// nextBlock begins a block of at least the given size.
func (g *generation) nextBlock(size int) {
	if g.filled == len(g.blocks) {
		g.blocks = append(g.blocks, nil)
	}
	if len(g.blocks[g.filled]) < size {
		g.blocks[g.filled] = make([]byte, max(size, cacheBlock))
	}
	g.filled, g.at = g.filled+1, 0
}

package index

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// rowCache keeps the newest versions of the rows that a fold has lately used, by the
// rows' names, in memory that holds no pointers: there are hundreds of thousands, and
// the garbage collector need not look at them. They are in two generations: those used
// since the last turn, and those used between the two turns before. It belongs to the
// follower's goroutine.
type rowCache struct {
	seed       maphash.Seed
	young, old generation
}

// version is one version of a row.
type version struct {
	seq   uint64
	value []byte // of the cache; another put of the row may change it
	found bool   // false: the row has no version at all
}

// turn makes the young generation the old one, and forgets what was old, unless there
// is little in it. limit is the bytes that both may take.
func (c *rowCache) turn(limit int) {
	switch {
	case c.young.heads == nil:
		c.seed = maphash.MakeSeed()
	case c.young.used < limit/4:
		return
	}
	c.young, c.old = c.old, c.young
	c.young.reset(limit / 2)
}

// full reports whether the young generation has its share of the bytes.
func (c *rowCache) full(limit int) bool { return c.young.used >= limit/2 }

// find is the newest version of a row that is kept, as one that is young now.
func (c *rowCache) find(name []byte) (version, bool) {
	hash := maphash.Bytes(c.seed, name)
	if e := c.young.find(hash, name); e != nil {
		return c.young.version(e), true
	}
	e := c.old.find(hash, name)
	if e == nil {
		return version{}, false
	}
	return c.young.keep(hash, name, c.old.version(e)), true
}

// keep keeps a version, whose value is copied, in place of the row's last one.
func (c *rowCache) keep(name []byte, v version) version {
	return c.young.keep(maphash.Bytes(c.seed, name), name, v)
}

// generation is a hash table.
type generation struct {
	heads   []uint32 // the first entry of each chain; their number is a power of two
	entries []entry  // the first is none
	blocks  [][]byte // names and values
	filled  int      // blocks that are in use, the last of them up to
	at      int      // this place
	used    int      // bytes, heads included
}

// entry is one row. Its name stands in a block, and its value behind that.
type entry struct {
	seq         uint64
	next        uint32 // the entry behind it in its chain, 0 for none
	block, at   uint32
	value, room uint32 // the length of the value, and what it can be without moving
	name        uint8  // the length of the name
	found       bool
}

const (
	entryBytes = int(unsafe.Sizeof(entry{}))
	cacheBlock = 1 << 16
	// usualBytes is about what a row takes.
	usualBytes = 128
)

// reset empties a generation and keeps what memory it may need for so many bytes.
func (g *generation) reset(bytes int) {
	heads := 1 << bits.Len(uint(bytes/usualBytes))
	if len(g.heads) != heads {
		*g = generation{heads: make([]uint32, heads)}
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

func (g *generation) find(hash uint64, name []byte) *entry {
	if len(g.entries) < 2 {
		return nil
	}
	for i := g.heads[hash&uint64(len(g.heads)-1)]; i != 0; {
		e := &g.entries[i]
		if string(g.text(e, 0, int(e.name))) == string(name) {
			return e
		}
		i = e.next
	}
	return nil
}

// text is a part of an entry's name and value.
func (g *generation) text(e *entry, from, length int) []byte {
	from += int(e.at)
	return g.blocks[e.block][from : from+length : from+length]
}

func (g *generation) version(e *entry) version {
	return version{e.seq, g.text(e, int(e.name), int(e.value)), e.found}
}

// keep sets the version of a row.
func (g *generation) keep(hash uint64, name []byte, v version) version {
	e := g.find(hash, name)
	if e == nil {
		head := &g.heads[hash&uint64(len(g.heads)-1)]
		g.entries = append(g.entries, entry{next: *head, name: uint8(len(name))})
		g.used += entryBytes
		*head = uint32(len(g.entries) - 1)
		e = &g.entries[*head]
		g.place(e, name, len(v.value))
	} else if int(e.room) < len(v.value) {
		g.place(e, name, len(v.value))
	}
	e.seq, e.value, e.found = v.seq, uint32(len(v.value)), v.found
	copy(g.text(e, int(e.name), len(v.value)), v.value)
	return g.version(e)
}

// place gives an entry a place of its own, with room for a value that is a little
// longer: that is what the next version mostly is.
func (g *generation) place(e *entry, name []byte, value int) {
	room := value + 8
	size := len(name) + room
	if g.at+size > cacheBlock {
		g.nextBlock(size)
	}
	e.block, e.at, e.room = uint32(g.filled-1), uint32(g.at), uint32(room)
	g.at += copy(g.blocks[e.block][g.at:], name) + room
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

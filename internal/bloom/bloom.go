// Package bloom tells most keys that were never written from those that were, without
// reading: looking for what is not there costs most.
package bloom

import (
	"encoding/binary"
	"sync/atomic"
)

// Key is half a SHA-256, or one that was mixed with a number: as good as random, so that it
// serves as its own hash.
type Key = [16]byte

// Memory is what filters take theirs from: so many bytes, until they are released, or
// nothing if there are not as many.
type Memory func(bytes int64) (release func(), ok bool)

// Within is memory out of spare bytes, which others may take from too.
func Within(spare *atomic.Int64) Memory {
	return func(bytes int64) (func(), bool) {
		if spare.Add(-bytes) < 0 {
			spare.Add(bytes)
			return nil, false
		}
		return func() { spare.Add(bytes) }, true
	}
}

// Filter has all keys that were added, and at most seven in a thousand that were not. It
// grows with them, and its memory is bounded: when there is no room for more it gives
// back what it has, and says of every key that it may be there. It is not safe for
// concurrent use.
type Filter struct {
	memory Memory
	layers []layer // each for four times as many as the one before, if there is room
	blind  bool    // keys were left out
}

// layer is a Bloom filter in blocks: all bits of a key are in one of them.
type layer struct {
	blocks  []block // a power of two
	room    int     // keys that may still be added
	release func()  // of the memory
}

type block [8]uint64

const (
	blockBytes = 64
	blockKeys  = 32     // 2 bytes for each
	first      = 1 << 9 // blocks of the first layer
	placeBits  = 9      // of the place of a bit in a block
)

// New makes an empty filter.
func New(memory Memory) *Filter { return &Filter{memory: memory} }

// Add adds a key.
func (f *Filter) Add(k Key) {
	if f.blind {
		return
	}
	last := len(f.layers) - 1
	if last < 0 || f.layers[last].room == 0 {
		if !f.grow(first << (2 * len(f.layers))) {
			f.Release()
			return
		}
		last++
	}
	f.layers[last].room--
	b := f.layers[last].block(k)
	for places := placesOf(k); places > 1; places >>= placeBits {
		b[places>>6&7] |= 1 << (places & 63)
	}
}

// grow adds a layer of so many blocks, or half of them or less if there is no room for
// more; false if there is not even for the fewest.
func (f *Filter) grow(blocks int) bool {
	for ; blocks >= first; blocks /= 2 {
		if release, ok := f.memory(int64(blocks) * blockBytes); ok {
			f.layers = append(f.layers, layer{make([]block, blocks), blocks * blockKeys, release})
			return true
		}
	}
	return false
}

// Release gives back the memory. From now on every key may be there.
func (f *Filter) Release() {
	for _, l := range f.layers {
		l.release()
	}
	f.layers, f.blind = nil, true
}

// Blind reports whether every key may be there, since there was no room for all.
func (f *Filter) Blind() bool { return f.blind }

// placesOf are the places of a key's seven bits, below a 1.
func placesOf(k Key) uint64 { return binary.BigEndian.Uint64(k[8:]) | 1<<63 }

func (l *layer) block(k Key) *block {
	return &l.blocks[binary.BigEndian.Uint64(k[:])&uint64(len(l.blocks)-1)]
}

// MayHave is false for a key that was never added.
func (f *Filter) MayHave(k Key) bool {
	if f.blind {
		return true
	}
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].mayHave(k) {
			return true
		}
	}
	return false
}

func (l *layer) mayHave(k Key) bool {
	b := l.block(k)
	for places := placesOf(k); places > 1; places >>= placeBits {
		if b[places>>6&7]&(1<<(places&63)) == 0 {
			return false
		}
	}
	return true
}

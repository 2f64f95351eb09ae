// Package bloom tells most keys that were never written from those that were, without
// reading: looking for what is not there costs most.
package bloom

import (
	"encoding/binary"
	"sync/atomic"
)

// Key is half a SHA-256: as good as random, so that it serves as its own hash.
type Key = [16]byte

// Filter has all keys that were added, and some four in a thousand that were not. It
// grows with them, and its memory is bounded: when there is no room for more it gives
// back what it has, and says of every key that it may be there. It is not safe for
// concurrent use.
type Filter struct {
	spare  *atomic.Int64
	layers []layer // each for four times as many as the one before, if there is room
	blind  bool    // keys were left out
}

// layer is a Bloom filter in blocks: all bits of a key are in one of them.
type layer struct {
	blocks []block // a power of two
	room   int     // keys that may still be added
}

type block [8]uint64

const (
	blockBytes = 64
	blockKeys  = 32     // 2 bytes for each
	first      = 1 << 9 // blocks of the first layer
	placeBits  = 9      // of the place of a bit in a block
)

// New makes an empty filter, which takes its memory out of spare: the bytes that it and
// others may still take. That is safe for concurrent use.
func New(spare *atomic.Int64) *Filter { return &Filter{spare: spare} }

// Add adds a key.
func (f *Filter) Add(k Key) {
	if f.blind {
		return
	}
	last := len(f.layers) - 1
	if last < 0 || f.layers[last].room == 0 {
		blocks := f.take(first << (2 * len(f.layers)))
		if blocks == 0 {
			f.Release()
			return
		}
		f.layers = append(f.layers, layer{make([]block, blocks), blocks * blockKeys})
		last++
	}
	f.layers[last].room--
	b := f.layers[last].block(k)
	for places := placesOf(k); places > 1; places >>= placeBits {
		b[places>>6&7] |= 1 << (places & 63)
	}
}

// take takes room for so many blocks, or half of them or less if there is no more; 0 if
// not even for the fewest.
func (f *Filter) take(blocks int) int {
	for ; blocks >= first; blocks /= 2 {
		bytes := int64(blocks) * blockBytes
		if f.spare.Add(-bytes) >= 0 {
			return blocks
		}
		f.spare.Add(bytes)
	}
	return 0
}

// Release gives back the memory. From now on every key may be there.
func (f *Filter) Release() {
	for _, l := range f.layers {
		f.spare.Add(int64(len(l.blocks)) * blockBytes)
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

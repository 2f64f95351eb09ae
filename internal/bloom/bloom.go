// Package bloom implements a Bloom filter that grows within a memory limit. Callers use it to avoid
// looking up keys that were never written, or not recently, because those lookups are the most expensive.
package bloom

import (
	"encoding/binary"
	"sync/atomic"
)

// Key is an element of a Filter: half of a SHA-256, possibly combined with a number. Its bits are
// effectively random, so the filter uses them directly and does not hash again.
type Key = [16]byte

// ReserveFunc reserves the given number of bytes until release is called. ok is false if that many
// bytes are not available.
type ReserveFunc func(bytes int64) (release func(), ok bool)

// SharedReserveFunc returns a ReserveFunc for filters that share a memory limit. spare is the
// number of bytes that are still available.
func SharedReserveFunc(spare *atomic.Int64) ReserveFunc {
	return func(bytes int64) (func(), bool) {
		if spare.Add(-bytes) < 0 {
			spare.Add(bytes)
			return nil, false
		}
		return func() { spare.Add(bytes) }, true
	}
}

// Filter is a Bloom filter whose false positive rate is at most 0.7 %. It grows as keys are added. If it
// cannot reserve more memory, it releases all its memory, and MayContain returns true for every key from
// then on. It is not safe for concurrent use.
type Filter struct {
	memory   ReserveFunc
	layers   []layer // each layer has room for four times as many keys as the previous one, if memory allows
	released bool    // the filter has released its memory, so it no longer knows which keys were added
}

// layer is a blocked Bloom filter: all bits of a key are in one block, which is one cache
// line.
type layer struct {
	blocks  []block // the number of blocks is a power of two
	room    int     // number of keys that can still be added
	release func()  // releases the layer's reserved memory
}

type block [8]uint64

const (
	blockBytes = 64
	blockKeys  = 32     // average number of keys per block in a full layer, or 2 bytes per key
	first      = 1 << 9 // number of blocks in the first layer
	placeBits  = 9      // number of bits that encode a position in a block
)

// New returns an empty filter that reserves its memory with the given function.
func New(memory ReserveFunc) *Filter { return &Filter{memory: memory} }

// Add adds a key. If the filter must grow but cannot reserve enough memory, Add releases all of the
// filter's memory, as Release does.
func (f *Filter) Add(k Key) {
	if f.released {
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

// grow adds a layer with the given number of blocks. If there is not enough memory for that, it
// repeatedly halves the number. It returns false if there is not enough memory even for the
// smallest layer.
func (f *Filter) grow(blocks int) bool {
	for ; blocks >= first; blocks /= 2 {
		if release, ok := f.memory(int64(blocks) * blockBytes); ok {
			f.layers = append(f.layers, layer{make([]block, blocks), blocks * blockKeys, release})
			return true
		}
	}
	return false
}

// Release releases the filter's memory. From then on, MayContain returns true for every key.
func (f *Filter) Release() {
	for _, l := range f.layers {
		l.release()
	}
	f.layers, f.released = nil, true
}

// MatchesAll reports whether MayContain returns true for every key, because memory ran out or
// Release was called.
func (f *Filter) MatchesAll() bool { return f.released }

// placesOf returns the positions of the seven bits that represent a key, each encoded in nine bits. The
// most significant bit is always 1 and marks the end.
func placesOf(k Key) uint64 { return binary.BigEndian.Uint64(k[8:]) | 1<<63 }

func (l *layer) block(k Key) *block {
	return &l.blocks[binary.BigEndian.Uint64(k[:])&uint64(len(l.blocks)-1)]
}

// MayContain reports whether k may have been added. It returns false only if k was never added.
func (f *Filter) MayContain(k Key) bool {
	if f.released {
		return true
	}
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].mayContain(k) {
			return true
		}
	}
	return false
}

func (l *layer) mayContain(k Key) bool {
	b := l.block(k)
	for places := placesOf(k); places > 1; places >>= placeBits {
		if b[places>>6&7]&(1<<(places&63)) == 0 {
			return false
		}
	}
	return true
}

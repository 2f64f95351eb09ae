package producers

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"colophon/ledger/index/rowstore"
)

// The numbers that a producer has delivered out of order form a set of 64-bit numbers, stored in
// blocks of 256. A block of the next level summarises 256 blocks, and so on. A few reads therefore
// find the next number that is, or is not, in the set, however far away it is.

const (
	blockBits = 8 // number of bits of a delivered number that each level covers
	topLevel  = 64/blockBits - 1
)

// bitmap has one bit for each part of a block. At level 0, a part is a single number. At higher
// levels, it is a block of the level below.
type bitmap [1 << blockBits / 64]uint64

func (b *bitmap) has(i byte) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b *bitmap) add(i byte) { b[i/64] |= 1 << (i % 64) }

// seek returns the index of the lowest bit at or after i that is set or, if clear is true, is not
// set. It returns false if there is none.
func (b *bitmap) seek(i byte, clear bool) (byte, bool) {
	for word := i / 64; word < byte(len(b)); word++ {
		w := b[word]
		if clear {
			w = ^w
		}
		if word == i/64 {
			w &= ^uint64(0) << (i % 64)
		}
		if w != 0 {
			return word*64 + byte(bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}

// block is a stored block of the set. At level 0, the bitmaps any and all are equal.
type block struct {
	any bitmap // parts with at least one number in the set
	all bitmap // parts whose numbers are all in the set
}

// seek returns the lowest part at or after i that contains a number in the set or, if missing is
// true, a number that is not in the set. It returns false if there is no such part.
func (b *block) seek(i byte, missing bool) (byte, bool) {
	if missing {
		return b.all.seek(i, true)
	}
	return b.any.seek(i, false)
}

// append encodes a block. If both bitmaps are equal, it writes only one.
func (b *block) append(dst []byte) []byte {
	for _, word := range b.all {
		dst = binary.BigEndian.AppendUint64(dst, word)
	}
	if b.any == b.all {
		return dst
	}
	for _, word := range b.any {
		dst = binary.BigEndian.AppendUint64(dst, word)
	}
	return dst
}

func decodeBlock(value []byte) (block, error) {
	var b block
	const size = len(b.all) * 8
	if len(value) != size && len(value) != 2*size {
		return block{}, fmt.Errorf("%w: cannot decode a block of sequence numbers from %x", rowstore.ErrDamaged, value)
	}
	for i := range b.all {
		b.all[i] = binary.BigEndian.Uint64(value[i*8:])
		b.any[i] = binary.BigEndian.Uint64(value[len(value)-size+i*8:])
	}
	return b, nil
}

// blockRow returns the row of a block. At level 0, n is a number in the block. At higher levels, n
// is the index of a block of the level below.
func blockRow(dst []byte, producer rowstore.Identity, level byte, n uint64) []byte {
	return rowstore.AppendSeq(append(append(dst, producer[:]...), level), n>>blockBits)
}

// addNumber adds a number to a set, and reports whether it is new. read returns a stored
// block, and write stores one.
func addNumber(n uint64, read func(level byte, n uint64) block, write func(level byte, n uint64, b *block)) bool {
	becameNonempty, full := true, true // describe the block of the level below, after n was added to it
	for level := byte(0); level <= topLevel && (becameNonempty || full); level++ {
		b, i := read(level, n), byte(n)
		if level == 0 && b.any.has(i) {
			return false
		}
		empty := b.any == bitmap{}
		b.any.add(i)
		if full {
			b.all.add(i)
			_, partly := b.all.seek(0, true)
			full = !partly
		}
		write(level, n, &b)
		becameNonempty, n = empty, n>>blockBits
	}
	return true
}

// seekNumber returns the lowest number at or above n that is in a set or, if missing is true, that
// is not in the set. It returns false if there is none. It reads at most two blocks of each level.
func seekNumber(n uint64, missing bool, read func(level byte, n uint64) (block, error)) (uint64, bool, error) {
	level := byte(0)
	for ; ; level++ {
		b, err := read(level, n)
		if err != nil {
			return 0, false, err
		}
		if i, found := b.seek(byte(n), missing); found {
			n = n>>blockBits<<blockBits | uint64(i)
			break
		}
		if n = n>>blockBits + 1; level == topLevel || n>>(64-blockBits*(int(level)+1)) > 0 {
			return 0, false, nil // the search has passed the largest 64-bit number
		}
	}
	for ; level > 0; level-- {
		n <<= blockBits
		b, err := read(level-1, n)
		if err != nil {
			return 0, false, err
		}
		i, _ := b.seek(0, missing)
		n |= uint64(i)
	}
	return n, true, nil
}

// producerState records what a producer has delivered. It is the value of a version in
// producerStates. Numbers begin at 1. A producer may also deliver 0, but 0 is never missing.
type producerState struct {
	next      uint64 // the lowest number above 0 that was not delivered
	highest   uint64 // the highest delivered number; 0 if there is none above 0
	delivered uint64 // number of distinct numbers that were delivered, not counting 0
	repeats   uint64 // number of records that repeat a number
	zero      uint64 // 1 if number 0 was delivered
}

// missing returns the number of missing numbers below the highest.
func (s *producerState) missing() uint64 { return s.highest - s.delivered }

func (s *producerState) append(dst []byte) []byte {
	return rowstore.AppendNumbers(dst, s.next, s.highest, s.delivered, s.repeats, s.zero)
}

func decodeProducerState(value []byte) (producerState, error) {
	var s producerState
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&s.next, &s.highest, &s.delivered, &s.repeats, &s.zero)
	return s, r.Finish("a producer", value)
}

// onlyRow is the row of every dimension that has only one row.
var onlyRow = []byte{0}

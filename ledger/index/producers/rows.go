package producers

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"colophon/ledger/index/rowstore"
)

// The numbers that a producer has delivered out of order are a set of 64-bit
// numbers in blocks of 256. What is known of 256 blocks is a block of the next
// level, and so on, so that the lowest number from another on that is in the set, or
// that is not, is found by reading a few rows, however far it is.

const (
	blockBits = 8 // of a number, that one level tells apart
	topLevel  = 64/blockBits - 1
)

// bitmap has one bit for each number, or block of the level below, of a block.
type bitmap [1 << blockBits / 64]uint64

func (b *bitmap) has(i byte) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b *bitmap) add(i byte) { b[i/64] |= 1 << (i % 64) }

// seek is the lowest bit from i on that is set or, if it is to be clear, is not.
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

// block is one block of a level. At level 0 any and all are the same.
type block struct {
	any bitmap // what has a number in the set
	all bitmap // what has all its numbers in the set
}

// seek is the lowest part of the block from i on that has a number of the set or,
// if it is to be missing, one that is not in it.
func (b *block) seek(i byte, missing bool) (byte, bool) {
	if missing {
		return b.all.seek(i, true)
	}
	return b.any.seek(i, false)
}

// append writes one bitmap where that says it all.
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
		return block{}, fmt.Errorf("%w: a block of numbers as %x", rowstore.ErrDamaged, value)
	}
	for i := range b.all {
		b.all[i] = binary.BigEndian.Uint64(value[i*8:])
		b.any[i] = binary.BigEndian.Uint64(value[len(value)-size+i*8:])
	}
	return b, nil
}

// blockRow is the row of a block: n is a number of the level, at level 0 one of the
// set.
func blockRow(dst []byte, producer rowstore.Identity, level byte, n uint64) []byte {
	return rowstore.AppendSeq(append(append(dst, producer[:]...), level), n>>blockBits)
}

// addNumber adds a number to a set, and says whether it was not in it before. read is
// a block as it is stored, write stores it.
func addNumber(n uint64, read func(level byte, n uint64) block, write func(level byte, n uint64, b *block)) bool {
	begun, whole := true, true // what the level below has become
	for level := byte(0); level <= topLevel && (begun || whole); level++ {
		b, i := read(level, n), byte(n)
		if level == 0 && b.any.has(i) {
			return false
		}
		empty := b.any == bitmap{}
		b.any.add(i)
		if whole {
			b.all.add(i)
			_, partly := b.all.seek(0, true)
			whole = !partly
		}
		write(level, n, &b)
		begun, n = empty, n>>blockBits
	}
	return true
}

// seekNumber is the lowest number from n on that is in a set or, if it is to be
// missing, is not. It reads a block of each level at most twice.
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
			return 0, false, nil // beyond the largest number
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

// producerState is what a producer has delivered up to a record: the value of
// producerStates. Its numbers begin at 1; 0 may be delivered too, and is never
// missed.
type producerState struct {
	next      uint64 // the lowest number from 1 on that is not delivered
	highest   uint64 // 0 if none was
	delivered uint64 // distinct numbers from 1 on
	repeats   uint64 // records that repeat a number
	zero      uint64 // 1 if number 0 was delivered
}

// missing is how many numbers below the highest are not delivered.
func (s *producerState) missing() uint64 { return s.highest - s.delivered }

func (s *producerState) append(dst []byte) []byte {
	return rowstore.AppendNumbers(dst, s.next, s.highest, s.delivered, s.repeats, s.zero)
}

func decodeProducerState(value []byte) (producerState, error) {
	var s producerState
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&s.next, &s.highest, &s.delivered, &s.repeats, &s.zero)
	return s, r.Err("a producer", value)
}

// onlyRow is the row of dimensions that have one only.
var onlyRow = []byte{0}

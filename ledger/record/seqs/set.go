package seqs

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
)

// Set is a set of event numbers. The zero value is empty. It uses 8 KiB of memory for each aligned
// block of 65,536 numbers that contains a member.
type Set struct {
	blocks map[uint64]*seqBlock // keyed by event number / blockSeqs
	count  uint64
}

// blockSeqs is the number of event numbers that a block covers.
const blockSeqs = 1 << 16

// seqBlock has one bit for each number in the block.
type seqBlock [blockSeqs / 64]uint64

// Add adds seq to the set.
func (s *Set) Add(seq uint64) {
	block := s.blocks[seq/blockSeqs]
	if block == nil {
		if s.blocks == nil {
			s.blocks = make(map[uint64]*seqBlock)
		}
		block = new(seqBlock)
		s.blocks[seq/blockSeqs] = block
	}
	word, bit := &block[seq%blockSeqs/64], uint64(1)<<(seq%64)
	if *word&bit == 0 {
		*word |= bit
		s.count++
	}
}

// Has reports whether seq is in the set.
func (s *Set) Has(seq uint64) bool {
	block := s.blocks[seq/blockSeqs]
	return block != nil && block[seq%blockSeqs/64]&(1<<(seq%64)) != 0
}

// Len returns the number of event numbers in the set.
func (s *Set) Len() uint64 { return s.count }

// All yields the event numbers in the set in ascending order. The set must not change during the
// iteration.
func (s *Set) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, number := range slices.Sorted(maps.Keys(s.blocks)) {
			for i, word := range s.blocks[number] {
				for ; word != 0; word &= word - 1 {
					if !yield(number*blockSeqs + uint64(i*64+bits.TrailingZeros64(word))) {
						return
					}
				}
			}
		}
	}
}

package ledger

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
)

// SeqSet is a set of events by their numbers. The zero SeqSet is empty. It takes
// 8 KiB for every 65,536 neighbouring numbers of which it has one.
type SeqSet struct {
	blocks map[uint64]*seqBlock // by number / blockSeqs
	count  uint64
}

// blockSeqs is how many numbers a block is about.
const blockSeqs = 1 << 16

// seqBlock has a bit for each number.
type seqBlock [blockSeqs / 64]uint64

// Add puts a number into the set.
func (s *SeqSet) Add(seq uint64) {
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

// Has says whether a number is in the set.
func (s *SeqSet) Has(seq uint64) bool {
	block := s.blocks[seq/blockSeqs]
	return block != nil && block[seq%blockSeqs/64]&(1<<(seq%64)) != 0
}

// Len is how many numbers are in the set.
func (s *SeqSet) Len() uint64 { return s.count }

// All yields the numbers in ascending order. The set must not change meanwhile.
func (s *SeqSet) All() iter.Seq[uint64] {
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

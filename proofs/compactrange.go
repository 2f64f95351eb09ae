package proofs

import "math/bits"

// CompactRange is the roots of the complete subtrees that the tree consists of, the
// largest first; there is none in an empty tree. Trees of one size are equal where
// these are, so that they say with a few hashes what tiles must lead to.
func (s *Snapshot) CompactRange() []Hash {
	subtrees := make([]Hash, 0, bits.OnesCount64(s.size))
	for rest := s.size; rest != 0; {
		height := uint(bits.Len64(rest) - 1)
		subtrees = append(subtrees, s.edgeNode(height, s.size>>height-1))
		rest -= 1 << height
	}
	return subtrees
}

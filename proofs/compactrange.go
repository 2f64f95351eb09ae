package proofs

import "math/bits"

// CompactRange returns the roots of the complete subtrees that the tree consists of, the
// largest first; the empty tree has none. Two trees of one size are equal if and only if these
// roots are equal, so a few hashes commit to all tiles.
func (s *Snapshot) CompactRange() []Hash {
	subtrees := make([]Hash, 0, bits.OnesCount64(s.size))
	for rest := s.size; rest != 0; {
		height := uint(bits.Len64(rest) - 1)
		subtrees = append(subtrees, s.edgeNode(height, s.size>>height-1))
		rest -= 1 << height
	}
	return subtrees
}

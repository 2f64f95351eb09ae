package proofs

import (
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/proof"
)

// maxPath is the maximum number of hashes in an inclusion proof in a tree whose size fits in 64
// bits.
const maxPath = 64

// VerifyInclusion returns ErrInclusion unless path proves that leaf is at index in the tree with
// the given size and root.
func VerifyInclusion(leaf Hash, index, size uint64, path []Hash, root Hash) error {
	if len(path) > maxPath {
		return fmt.Errorf("%w: the path of %d hashes is too long", ErrInclusion, len(path))
	}
	got, err := proof.RootFromInclusionProof(hasher{}, index, size, leaf[:], byteSlices(path))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInclusion, err)
	}
	if Hash(got) != root {
		return fmt.Errorf("%w: the path of leaf %d yields the root %x, but the tree of %d leaves has the root %x",
			ErrInclusion, index, got, size, root)
	}
	return nil
}

// VerifyConsistency returns ErrConsistency unless path proves that the tree of size first with root
// root1 is a prefix of the tree of size second with root root2. It returns ErrRange if first is 0,
// because RFC 6962 does not define a proof from the empty tree.
func VerifyConsistency(first, second uint64, root1, root2 Hash, path []Hash) error {
	if first == 0 || first > second {
		return fmt.Errorf("%w: there is no consistency proof from size %d to size %d", ErrRange, first, second)
	}
	if len(path) > maxPath+1 {
		return fmt.Errorf("%w: the path of %d hashes is too long", ErrConsistency, len(path))
	}
	err := proof.VerifyConsistency(hasher{}, first, second, byteSlices(path), root1[:], root2[:])
	var mismatch proof.RootMismatchError
	switch {
	case errors.As(err, &mismatch):
		return fmt.Errorf("%w: the path from size %d to %d yields the root %x, not %x",
			ErrConsistency, first, second, mismatch.CalculatedRoot, mismatch.ExpectedRoot)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrConsistency, err)
	}
	return nil
}

func byteSlices(hashes []Hash) [][]byte {
	slices := make([][]byte, len(hashes))
	for i := range hashes {
		slices[i] = hashes[i][:]
	}
	return slices
}

// hasher implements the hasher interface of the merkle library with this package's hash functions.
type hasher struct{}

func (hasher) EmptyRoot() []byte { h := EmptyRoot(); return h[:] }

func (hasher) HashLeaf(leaf []byte) []byte { h := LeafHash(leaf); return h[:] }

func (hasher) HashChildren(l, r []byte) []byte { h := NodeHash(Hash(l), Hash(r)); return h[:] }

func (hasher) Size() int { return HashSize }

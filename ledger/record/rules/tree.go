package rules

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
)

// leafPrefix and nodePrefix are prepended to leaves and inner nodes before they are hashed in the
// tree of a run (spec: Run tree). That tree is not an RFC 6962 tree.
const (
	leafPrefix = 0x00
	nodePrefix = 0x03
)

// MerkleStep is one step on the path from a leaf to the root in the tree of a run (spec: Run tree).
// Sibling is paired with the current node, on its left if SiblingIsLeft is true and on its right
// otherwise.
type MerkleStep struct {
	Sibling       Hash
	SiblingIsLeft bool
}

// MerkleRoot returns the root of a run's tree with the given leaves (spec: Run tree). If the last
// node of a level has no sibling, it is paired with itself. There must be at least one leaf.
func MerkleRoot(leaves [][]byte) Hash {
	level := make([]Hash, len(leaves))
	for i, leaf := range leaves {
		level[i] = leafHash(leaf)
	}
	for len(level) > 1 {
		level = parents(level)
	}
	return level[0]
}

// MerklePath returns the path from the leaf at the given index to the root, and the root itself.
// The root is the same as the result of MerkleRoot.
func MerklePath(leaves []Hash, index int) ([]MerkleStep, Hash) {
	level := make([]Hash, len(leaves))
	for i, leaf := range leaves {
		level[i] = leafHash(leaf[:])
	}
	var path []MerkleStep
	for ; len(level) > 1; index /= 2 {
		sibling := min(index^1, len(level)-1) // a last node without a sibling is its own sibling
		path = append(path, MerkleStep{level[sibling], sibling < index})
		level = parents(level)
	}
	return path, level[0]
}

// VerifyMerklePath returns an error unless path leads from leaf to root. index is the position of
// the leaf, and leaves is the number of leaves in the tree.
func VerifyMerklePath(leaf Hash, index, leaves int, path []MerkleStep, root Hash) error {
	node, rest := leafHash(leaf[:]), path
	for at := index; leaves > 1; at, leaves = at/2, (leaves+1)/2 {
		if len(rest) == 0 {
			return fmt.Errorf("the path has %d steps, which is too few", len(path))
		}
		step := rest[0]
		sibling := min(at^1, leaves-1)
		if step.SiblingIsLeft != (sibling < at) || sibling == at && step.Sibling != node {
			return fmt.Errorf("step %d of the path does not belong to stage %d", len(path)-len(rest), index)
		}
		if step.SiblingIsLeft {
			node = pair(step.Sibling, node)
		} else {
			node = pair(node, step.Sibling)
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("the path has %d steps, which is %d too many", len(path), len(rest))
	case node != root:
		return fmt.Errorf("the path ends at %x, but the root of the run is %x", node, root)
	}
	return nil
}

func leafHash(leaf []byte) Hash {
	return sha256.Sum256(append([]byte{leafPrefix}, leaf...))
}

func pair(left, right Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = nodePrefix
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// parents computes the next level of a tree from level and overwrites level with it. level must
// contain at least two nodes.
func parents(level []Hash) []Hash {
	for i := 0; i < len(level); i += 2 {
		level[i/2] = pair(level[i], level[min(i+1, len(level)-1)])
	}
	return level[:(len(level)+1)/2]
}

// RunRoot returns the root over the hashes of a run's stages, given in the order of the stages.
// Each hash must consist of 64 hexadecimal digits, and there must be at least one.
func RunRoot(hashes [][]byte) Hash { return MerkleRoot(rawHashes(hashes)) }

func rawHashes(hashes [][]byte) [][]byte {
	raw := make([][]byte, len(hashes))
	for i, digits := range hashes {
		h := rawHash(digits)
		raw[i] = h[:]
	}
	return raw
}

// ContextRoot returns the root over the given document roots after sorting them and removing
// duplicates. Each document root must consist of 64 hexadecimal digits, and there must be at least
// one.
func ContextRoot(roots [][]byte) Hash {
	leaves := rawHashes(roots)
	slices.SortFunc(leaves, bytes.Compare)
	return MerkleRoot(slices.CompactFunc(leaves, bytes.Equal))
}

// EvidenceMapRoot returns the root over the given evidence IDs. The leaves are the IDs as text, in
// sorted order. There must be at least one ID.
func EvidenceMapRoot(ids [][]byte) Hash {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, bytes.Compare)
	return MerkleRoot(ids)
}

// EvidenceID returns "E" followed by the first eight hexadecimal digits of the SHA-256 of
// "chunkRoot:start:end".
func EvidenceID(chunkRoot, start, end []byte) []byte {
	sum := sha256.Sum256(bytes.Join([][]byte{chunkRoot, start, end}, []byte(":")))
	return AppendHex([]byte("E"), sum)[:1+8]
}

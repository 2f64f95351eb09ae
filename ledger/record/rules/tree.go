package rules

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Domain separation of the tree of a run (spec: Run tree). It is not the tree of RFC 6962.
const (
	leafPrefix = 0x00
	nodePrefix = 0x03
)

// PathStep is one step from a leaf of a run's own tree to its root (spec: Run tree): the node so
// far is paired with Sibling, which stands on its left or on its right.
type PathStep struct {
	Sibling Hash
	IsLeft  bool
}

// MerkleRoot is the root of the run's own tree over 32-byte or other leaves (spec: Run tree): an
// odd last element is paired with itself. There is at least one leaf.
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

// MerklePath is the path of a leaf in the tree that MerkleRoot is of, and the root.
func MerklePath(leaves []Hash, index int) ([]PathStep, Hash) {
	level := make([]Hash, len(leaves))
	for i, leaf := range leaves {
		level[i] = leafHash(leaf[:])
	}
	var path []PathStep
	for ; len(level) > 1; index /= 2 {
		sibling := min(index^1, len(level)-1) // an odd last node is its own
		path = append(path, PathStep{level[sibling], sibling < index})
		level = parents(level)
	}
	return path, level[0]
}

// VerifyMerklePath checks that a path leads from the leaf at an index, of so many leaves,
// to a root.
func VerifyMerklePath(leaf Hash, index, leaves int, path []PathStep, root Hash) error {
	node, rest := leafHash(leaf[:]), path
	for at := index; leaves > 1; at, leaves = at/2, (leaves+1)/2 {
		if len(rest) == 0 {
			return fmt.Errorf("it has %d steps, too few", len(path))
		}
		step := rest[0]
		sibling := min(at^1, leaves-1)
		if step.IsLeft != (sibling < at) || sibling == at && step.Sibling != node {
			return fmt.Errorf("step %d is not that of stage %d", len(path)-len(rest), index)
		}
		if step.IsLeft {
			node = pair(step.Sibling, node)
		} else {
			node = pair(node, step.Sibling)
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("it has %d steps, %d too many", len(path), len(rest))
	case node != root:
		return fmt.Errorf("it leads to %x, the root of the run is %x", node, root)
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

// parents is the level above one of at least two nodes, in the memory of that one.
func parents(level []Hash) []Hash {
	for i := 0; i < len(level); i += 2 {
		level[i/2] = pair(level[i], level[min(i+1, len(level)-1)])
	}
	return level[:(len(level)+1)/2]
}

// RunRoot is the root over the hashes of a run's stages, in their order. Each is 64
// hexadecimal digits; there is at least one.
func RunRoot(hashes [][]byte) Hash { return MerkleRoot(rawHashes(hashes)) }

func rawHashes(hashes [][]byte) [][]byte {
	raw := make([][]byte, len(hashes))
	for i, digits := range hashes {
		h := rawHash(digits)
		raw[i] = h[:]
	}
	return raw
}

// ContextRoot is the root over the distinct document roots, sorted. Each is 64 hexadecimal
// digits; there is at least one.
func ContextRoot(roots [][]byte) Hash {
	leaves := rawHashes(roots)
	slices.SortFunc(leaves, bytes.Compare)
	return MerkleRoot(slices.CompactFunc(leaves, bytes.Equal))
}

// EvidenceMapRoot is the root over the sorted evidence ids, as text. There is at least one.
func EvidenceMapRoot(ids [][]byte) Hash {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, bytes.Compare)
	return MerkleRoot(ids)
}

// EvidenceID is "E" and the first eight digits of SHA-256 of "root:start:end".
func EvidenceID(chunkRoot, start, end []byte) []byte {
	sum := sha256.Sum256(bytes.Join([][]byte{chunkRoot, start, end}, []byte(":")))
	return AppendHex([]byte("E"), sum)[:1+8]
}

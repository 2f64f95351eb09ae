package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Stage is one node of a run-DAG: its name and its hash in hexadecimal.
type Stage struct{ Name, Hash string }

// PathStep is one step from a leaf of a run's own tree to its root (1.4): the node so
// far is paired with Sibling, which stands on its left or on its right.
type PathStep struct {
	Sibling Hash
	IsLeft  bool
}

// StageProof shows that a stage is in the tree of a run.
type StageProof struct {
	Index int // of the stage in the run
	Hash  Hash
	Root  Hash
	Path  []PathStep // from the leaf upwards; empty where the run has one stage
}

// ProveStage finds a stage of a run-DAG and its path. Of several stages of one name the
// second is "name#2" and so on, as in the names of checks. False if there is no such
// stage; an error if a hash is none.
func ProveStage(stages []Stage, name string) (StageProof, bool, error) {
	nodes := make([]node, len(stages))
	leaves := make([]Hash, len(stages))
	for i, s := range stages {
		raw, err := hex.DecodeString(s.Hash)
		if err != nil || len(raw) != sha256.Size {
			return StageProof{}, false, fmt.Errorf("stage %q has the hash %q", s.Name, s.Hash)
		}
		nodes[i], leaves[i] = node{stage: s.Name}, Hash(raw)
	}
	p := StageProof{Index: slices.Index(stageFields(nodes), stagePrefix+name)}
	if p.Index < 0 {
		return StageProof{}, false, nil
	}
	p.Hash = leaves[p.Index]
	p.Path, p.Root = merklePath(leaves, p.Index)
	return p, true, nil
}

// merklePath is the path of a leaf in the tree that merkleRoot is of, and the root.
func merklePath(leaves []Hash, index int) ([]PathStep, Hash) {
	level := make([]Hash, len(leaves))
	for i, leaf := range leaves {
		level[i] = sha256.Sum256(append([]byte{0x00}, leaf[:]...))
	}
	var path []PathStep
	for ; len(level) > 1; index /= 2 {
		sibling := min(index^1, len(level)-1) // an odd last node is its own
		path = append(path, PathStep{level[sibling], sibling < index})
		for i := 0; i < len(level); i += 2 {
			level[i/2] = pair(level[i], level[min(i+1, len(level)-1)])
		}
		level = level[:(len(level)+1)/2]
	}
	return path, level[0]
}

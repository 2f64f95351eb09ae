package rules

import (
	"encoding/hex"
	"fmt"
	"slices"
)

// Stage is one stage of a run-DAG. Hash is in hexadecimal.
type Stage struct{ Name, Hash string }

// StageProof proves that a stage is in the tree of a run.
type StageProof struct {
	Index int          // index of the stage among the stages of the run
	Hash  Hash         // hash of the stage
	Root  Hash         // root of the run's Merkle tree
	Path  []MerkleStep // steps from the leaf to the root; empty if the run has only one stage
}

// ProveStage returns a proof for the stage with the given name, or false if there is no such stage.
// If several stages have the same name, the second is called "name#2", and so on, as in
// StageCheckNames. ProveStage returns an error if the hash of any stage is not a SHA-256.
func ProveStage(stages []Stage, name string) (StageProof, bool, error) {
	names := make([]string, len(stages))
	leaves := make([]Hash, len(stages))
	for i, s := range stages {
		raw, err := hex.DecodeString(s.Hash)
		if err != nil || len(raw) != len(leaves[i]) {
			return StageProof{}, false, fmt.Errorf("stage %q has the hash %q, which is not a hexadecimal SHA-256", s.Name, s.Hash)
		}
		names[i], leaves[i] = s.Name, Hash(raw)
	}
	p := StageProof{Index: slices.Index(StageCheckNames(names), StageCheckPrefix+name)}
	if p.Index < 0 {
		return StageProof{}, false, nil
	}
	p.Hash = leaves[p.Index]
	p.Path, p.Root = MerklePath(leaves, p.Index)
	return p, true, nil
}

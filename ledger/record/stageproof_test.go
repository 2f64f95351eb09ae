package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/rules"
)

// rootOf computes a root from the hash of a stage and a path. It implements the specification
// independently of package rules (spec: Run tree).
func rootOf(hash Hash, path []rules.MerkleStep) string {
	node := sha256.Sum256(append([]byte{0}, hash[:]...))
	for _, step := range path {
		left, right := node, step.Sibling
		if step.SiblingIsLeft {
			left, right = right, left
		}
		node = sha256.Sum256(append(append([]byte{3}, left[:]...), right[:]...))
	}
	return hex.EncodeToString(node[:])
}

func TestStageProofsOfVectors(t *testing.T) {
	v := vectors[struct {
		Merkle []struct {
			Leaves []string
			Root   string
		}
		Build, Reject []struct {
			DAG struct {
				Root  string
				Nodes []struct{ Stage, Hash string }
			}
		}
	}](t, "run-dag.json")
	prove := func(stages []rules.Stage, root string) {
		for i, s := range stages {
			p, found, err := rules.ProveStage(stages, s.Name)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, i, p.Index)
			require.Equal(t, s.Hash, hex.EncodeToString(p.Hash[:]))
			require.Equal(t, root, hex.EncodeToString(p.Root[:]))
			require.Equal(t, root, rootOf(p.Hash, p.Path))
		}
	}
	for _, m := range v.Merkle {
		var stages []rules.Stage
		for i, leaf := range m.Leaves {
			stages = append(stages, rules.Stage{Name: fmt.Sprint("stage ", i), Hash: leaf})
		}
		prove(stages, m.Root)
	}
	require.NotEmpty(t, v.Reject)
	for _, b := range append(v.Build, v.Reject...) {
		var stages []rules.Stage
		for _, n := range b.DAG.Nodes {
			stages = append(stages, rules.Stage{Name: n.Stage, Hash: n.Hash})
		}
		prove(stages, b.DAG.Root)
	}
}

func TestStageProofs(t *testing.T) {
	hash := func(n byte) string { return hex.EncodeToString(append(make([]byte, 31), n)) }
	stages := []rules.Stage{{Name: "a", Hash: hash(1)}, {Name: "a#2", Hash: hash(2)}, {Name: "a", Hash: hash(3)}}
	for name, index := range map[string]int{"a": 0, "a#2": 1, "a#3": 2} {
		p, found, err := rules.ProveStage(stages, name)
		require.NoError(t, err)
		require.True(t, found, name)
		require.Equal(t, index, p.Index, name)
		require.Len(t, p.Path, 2)
	}
	// The last of three leaves is its own sibling.
	p, _, err := rules.ProveStage(stages, "a#3")
	require.NoError(t, err)
	require.False(t, p.Path[0].SiblingIsLeft)
	require.Equal(t, Hash(sha256.Sum256(append([]byte{0}, p.Hash[:]...))), p.Path[0].Sibling)
	require.True(t, p.Path[1].SiblingIsLeft)

	p, found, err := rules.ProveStage(stages[:1], "a")
	require.NoError(t, err)
	require.True(t, found)
	require.Empty(t, p.Path)
	require.Equal(t, Hash(sha256.Sum256(append([]byte{0}, p.Hash[:]...))), p.Root)

	_, found, err = rules.ProveStage(stages, "b")
	require.NoError(t, err)
	require.False(t, found)
	_, _, err = rules.ProveStage([]rules.Stage{{Name: "a", Hash: "00"}}, "a")
	require.ErrorContains(t, err, `stage "a"`)
	_, _, err = rules.ProveStage([]rules.Stage{{Name: "a", Hash: "x"}}, "a")
	require.ErrorContains(t, err, `stage "a"`)
}

package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// rootOf recomputes a root from a path by the words of 1.4 alone.
func rootOf(hash Hash, path []PathStep) string {
	node := sha256.Sum256(append([]byte{0}, hash[:]...))
	for _, step := range path {
		left, right := node, step.Sibling
		if step.IsLeft {
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
	prove := func(stages []Stage, root string) {
		for i, s := range stages {
			p, found, err := ProveStage(stages, s.Name)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, i, p.Index)
			require.Equal(t, s.Hash, hex.EncodeToString(p.Hash[:]))
			require.Equal(t, root, hex.EncodeToString(p.Root[:]))
			require.Equal(t, root, rootOf(p.Hash, p.Path))
		}
	}
	for _, m := range v.Merkle {
		var stages []Stage
		for i, leaf := range m.Leaves {
			stages = append(stages, Stage{fmt.Sprint("stage ", i), leaf})
		}
		prove(stages, m.Root)
	}
	require.NotEmpty(t, v.Reject)
	for _, b := range append(v.Build, v.Reject...) {
		var stages []Stage
		for _, n := range b.DAG.Nodes {
			stages = append(stages, Stage{n.Stage, n.Hash})
		}
		prove(stages, b.DAG.Root)
	}
}

func TestStageProofs(t *testing.T) {
	hash := func(n byte) string { return hex.EncodeToString(append(make([]byte, 31), n)) }
	stages := []Stage{{"a", hash(1)}, {"a#2", hash(2)}, {"a", hash(3)}}
	for name, index := range map[string]int{"a": 0, "a#2": 1, "a#3": 2} {
		p, found, err := ProveStage(stages, name)
		require.NoError(t, err)
		require.True(t, found, name)
		require.Equal(t, index, p.Index, name)
		require.Len(t, p.Path, 2)
	}
	// The last of three is its own sibling.
	p, _, err := ProveStage(stages, "a#3")
	require.NoError(t, err)
	require.False(t, p.Path[0].IsLeft)
	require.Equal(t, Hash(sha256.Sum256(append([]byte{0}, p.Hash[:]...))), p.Path[0].Sibling)
	require.True(t, p.Path[1].IsLeft)

	p, found, err := ProveStage(stages[:1], "a")
	require.NoError(t, err)
	require.True(t, found)
	require.Empty(t, p.Path)
	require.Equal(t, Hash(sha256.Sum256(append([]byte{0}, p.Hash[:]...))), p.Root)

	_, found, err = ProveStage(stages, "b")
	require.NoError(t, err)
	require.False(t, found)
	_, _, err = ProveStage([]Stage{{"a", "00"}}, "a")
	require.ErrorContains(t, err, `stage "a"`)
	_, _, err = ProveStage([]Stage{{"a", "x"}}, "a")
	require.ErrorContains(t, err, `stage "a"`)
}

package drift

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCompareCitations(t *testing.T) {
	a := []Citation{{"c1", "s"}, {"c2", "s"}, {"c3", "s"}, {"c3", "t"}}
	b := []Citation{{"c3", "t"}, {"c4", "s"}, {"c2", "u"}, {"c3", "s"}}
	c := CompareCitations(a, b)
	require.Equal(t, []string{"c4"}, c.Added)
	require.Equal(t, []string{"c1"}, c.Removed)
	require.Equal(t, []string{"c3", "c2"}, c.Kept)
	require.Equal(t, []ChunkSourceChange{{"c2", []string{"s"}, []string{"u"}}}, c.SourceChanges)
	require.True(t, c.HasDifferences())
	require.Equal(t, "The citation sets differ. Chunks added: 1, removed: 1, kept: 2, kept from other sources: 1.", c.Sentence())

	same := CompareCitations(a, []Citation{{"c3", "t"}, {"c2", "s"}, {"c1", "s"}, {"c3", "s"}, {"c1", "s"}})
	require.False(t, same.HasDifferences(), "neither the order nor a repetition matters")
	require.Equal(t, "The citation sets cite the same chunks.", same.Sentence())
}

// CompareCitations reports a difference if and only if the sets contain different pairs of a chunk
// and a source.
func TestCompareCitationsProperties(t *testing.T) {
	drawn := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Citation {
		return Citation{rapid.SampledFrom([]string{"c", "d", "e"}).Draw(t, "chunk"), rapid.SampledFrom([]string{"s", "t"}).Draw(t, "source")}
	}), 0, 5)
	distinctPairs := func(list []Citation) map[Citation]bool {
		pairs := make(map[Citation]bool)
		for _, c := range list {
			pairs[c] = true
		}
		return pairs
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn.Draw(t, "a"), drawn.Draw(t, "b")
		c, back := CompareCitations(a, b), CompareCitations(b, a)
		require.Equal(t, !maps.Equal(distinctPairs(a), distinctPairs(b)), c.HasDifferences())
		require.Equal(t, c.HasDifferences(), back.HasDifferences())
		require.ElementsMatch(t, c.Added, back.Removed)
		require.Len(t, back.SourceChanges, len(c.SourceChanges))
	})
}

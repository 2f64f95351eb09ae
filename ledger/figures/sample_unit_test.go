package figures

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

// A sample does not depend on the order in which the pairs are added.
func TestSampleDoesNotDependOnTheOrder(t *testing.T) {
	const pairs = 5*maxSampled + 7
	sampled := func(order []int) []hashedPair {
		var s Sample
		for _, i := range order {
			s.Add(uint64(i), uint64(2*i))
		}
		require.Equal(t, pairs, s.all)
		return s.smallest()
	}
	random := rand.New(rand.NewPCG(1, 2))
	first := sampled(random.Perm(pairs))
	require.Len(t, first, maxSampled)
	require.Equal(t, first, sampled(random.Perm(pairs)))
	sum := uint64(0)
	for _, p := range first {
		sum += p.a
	}
	require.InDelta(t, pairs/2, sum/maxSampled, pairs/10, "the sample is uniform")
}

func TestQuartiles(t *testing.T) {
	require.Nil(t, quartiles(nil))
	require.Equal(t, &wire.Quartiles{Q1: 3, Median: 3, Q3: 3}, quartiles([]float64{3}))
	require.Equal(t, &wire.Quartiles{Q1: 1.75, Median: 2.5, Q3: 3.25}, quartiles([]float64{4, 2, 3, 1}))
}

// Once the work for an answer has reached the limit, CompareContent reads no more texts.
func TestWorkIsBounded(t *testing.T) {
	work := Work(maxWork)
	change, err := new(TextComparer).CompareContent(t.Context(), Output, 1, 2, &work)
	require.NoError(t, err)
	require.Equal(t, wire.TextChange{Unavailable: wire.TextLimit}, change)

	var pairs Sample
	summary, err := new(TextComparer).Summary(t.Context(), &pairs, 10)
	require.NoError(t, err)
	require.Equal(t, &wire.EffectTextSummary{SimilarityHistogram: make([]uint64, 10), WordsHistogram: []wire.WordsInterval{}, MostChanged: []wire.ChangedPair{}}, summary)
}

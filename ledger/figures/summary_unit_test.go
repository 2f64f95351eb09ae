package figures

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

func TestQuartiles(t *testing.T) {
	require.Nil(t, quartiles(nil))
	require.Equal(t, &wire.Quartiles{Q1: 3, Median: 3, Q3: 3}, quartiles([]float64{3}))
	require.Equal(t, &wire.Quartiles{Q1: 1.75, Median: 2.5, Q3: 3.25}, quartiles([]float64{4, 2, 3, 1}))
}

// Once the work for an answer has reached the limit, CompareContent reads no more texts.
func TestWorkIsBounded(t *testing.T) {
	work := Work(maxWork)
	change, err := new(TextComparer).CompareContent(t.Context(), ContentOutput, 1, 2, &work)
	require.NoError(t, err)
	require.Equal(t, wire.TextChange{Unavailable: wire.UnavailableWorkLimit}, change)

	summary, err := new(TextComparer).SummarizePairs(t.Context(), nil, true, 10)
	require.NoError(t, err)
	require.Equal(t, &wire.EffectTextSummary{Partial: true, SimilarityHistogram: make([]uint64, 10), WordsHistogram: []wire.WordCountBucket{}, MostChanged: []wire.ChangedPair{}}, summary)
}

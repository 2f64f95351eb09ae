package figures

import (
	"cmp"
	"context"
	"slices"

	"colophon/client/wire"
)

// MaxPairs is the largest number of pairs that a summary covers.
const MaxPairs = 1000

// SummarizePairs summarises how much the outputs differ within each pair of runs. pairs contains the seqs
// of the runs, and sample is true if there are further pairs. The summary lists the pairs that changed the
// most, at most limit of them. If the texts are long, it covers only the first pairs.
func (t *TextComparer) SummarizePairs(ctx context.Context, pairs [][2]uint64, sample bool, limit int) (*wire.EffectTextSummary, error) {
	answer := &wire.EffectTextSummary{Partial: sample, MostChanged: []wire.ChangedPair{}}
	var similarities, lengthChanges, wordsA, wordsB []float64
	var work Work
	for _, pair := range pairs {
		change, err := t.CompareContent(ctx, ContentOutput, pair[0], pair[1], &work)
		switch {
		case err != nil:
			return nil, err
		case change.Unavailable == wire.UnavailableWorkLimit:
			answer.Partial = true
			continue
		case change.Unavailable != "":
			answer.Unavailable++
			continue
		}
		answer.Pairs++
		answer.MostChanged = append(answer.MostChanged, wire.ChangedPair{A: pair[0], B: pair[1], Similarity: *change.Similarity, LengthChange: change.LengthChange})
		similarities = append(similarities, float64(*change.Similarity))
		wordsA, wordsB = append(wordsA, float64(change.A.Words)), append(wordsB, float64(change.B.Words))
		if change.LengthChange != nil {
			lengthChanges = append(lengthChanges, float64(*change.LengthChange))
		}
	}
	answer.SimilarityHistogram, answer.WordsHistogram = similarityHistogram(similarities), wordsHistogram(wordsA, wordsB)
	answer.Similarity, answer.LengthChange = quartiles(similarities), quartiles(lengthChanges)
	answer.WordsA, answer.WordsB = quartiles(wordsA), quartiles(wordsB)
	slices.SortFunc(answer.MostChanged, func(x, y wire.ChangedPair) int {
		return cmp.Or(cmp.Compare(x.Similarity, y.Similarity), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	answer.MostChanged = answer.MostChanged[:min(len(answer.MostChanged), limit)]
	return answer, nil
}

// quartiles sorts a list and returns its quartiles, or nil if it is empty. It interpolates between
// neighbouring values.
func quartiles(list []float64) *wire.Quartiles {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	at := func(part float64) wire.Decimal {
		place := part * float64(len(list)-1)
		below := int(place)
		above := min(below+1, len(list)-1)
		return wire.Decimal(list[below] + (place-float64(below))*(list[above]-list[below]))
	}
	return &wire.Quartiles{Q1: at(0.25), Median: at(0.5), Q3: at(0.75)}
}

// histogramParts is the maximum number of intervals in a histogram.
const histogramParts = 10

// similarityHistogram divides the range from 0 to 1 into histogramParts equal intervals, and
// returns the number of similarities in each.
func similarityHistogram(list []float64) []uint64 {
	counts := make([]uint64, histogramParts)
	for _, similarity := range list {
		counts[min(int(similarity*histogramParts), histogramParts-1)]++
	}
	return counts
}

// wordsHistogram divides the range from 0 to the largest length in two lists into intervals of
// equal width. It counts the lengths of each list that fall into each interval.
func wordsHistogram(a, b []float64) []wire.WordCountBucket {
	parts := []wire.WordCountBucket{}
	if len(a) == 0 {
		return parts
	}
	longest := uint64(max(slices.Max(a), slices.Max(b)))
	width := longest/histogramParts + 1
	for from := uint64(0); from <= longest; from += width {
		parts = append(parts, wire.WordCountBucket{From: from, Below: from + width})
	}
	for i := range a {
		parts[uint64(a[i])/width].A++
		parts[uint64(b[i])/width].B++
	}
	return parts
}

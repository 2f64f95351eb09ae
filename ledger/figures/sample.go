package figures

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"colophon/client/wire"
)

// maxSampled is the largest number of pairs that a summary covers.
const maxSampled = 1000

// Sample selects the pairs of records that a summary covers: the added pairs with the smallest
// hashes. The order in which pairs are added does not matter.
type Sample struct {
	all  int // number of pairs that were added
	kept []hashedPair
}

// hashedPair is two seqs and a hash of both.
type hashedPair struct{ hash, a, b uint64 }

// Add adds the pair of the records at seqs a and b.
func (s *Sample) Add(a, b uint64) {
	s.all++
	if len(s.kept) == 2*maxSampled {
		s.smallest()
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), b))
	s.kept = append(s.kept, hashedPair{binary.BigEndian.Uint64(sum[:]), a, b})
}

// smallest drops all pairs except the maxSampled ones with the smallest hashes, and returns
// these in the order of their hashes.
func (s *Sample) smallest() []hashedPair {
	slices.SortFunc(s.kept, func(x, y hashedPair) int {
		return cmp.Or(cmp.Compare(x.hash, y.hash), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	s.kept = s.kept[:min(len(s.kept), maxSampled)]
	return s.kept
}

// Summary summarises how much the outputs of a sample's pairs changed. It lists the limit pairs
// that changed most. If the texts are long, it covers only the pairs with the smallest hashes.
func (t *TextComparer) Summary(ctx context.Context, s *Sample, limit int) (*wire.EffectTextSummary, error) {
	pairs := s.smallest()
	answer := &wire.EffectTextSummary{Sample: s.all > len(pairs), MostChanged: []wire.ChangedPair{}}
	var similarities, lengthChanges, wordsA, wordsB []float64
	var work Work
	for _, pair := range pairs {
		change, err := t.CompareContent(ctx, Output, pair.a, pair.b, &work)
		switch {
		case err != nil:
			return nil, err
		case change.Unavailable == wire.TextLimit:
			answer.Sample = true
			continue
		case change.Unavailable != "":
			answer.Unavailable++
			continue
		}
		answer.Pairs++
		answer.MostChanged = append(answer.MostChanged, wire.ChangedPair{A: pair.a, B: pair.b, Similarity: *change.Similarity, LengthChange: change.LengthChange})
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

// quartiles sorts a list and returns its quartiles, or nil if it is empty. It interpolates
// between neighbouring figures.
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

// histogramParts is the largest number of parts of a histogram.
const histogramParts = 10

// similarityHistogram counts the similarities in each of histogramParts equal parts of the
// range from 0 to 1.
func similarityHistogram(list []float64) []uint64 {
	counts := make([]uint64, histogramParts)
	for _, similarity := range list {
		counts[min(int(similarity*histogramParts), histogramParts-1)]++
	}
	return counts
}

// wordsHistogram counts two lists of lengths in the same parts of equal width, which begin at 0.
func wordsHistogram(a, b []float64) []wire.WordsInterval {
	parts := []wire.WordsInterval{}
	if len(a) == 0 {
		return parts
	}
	longest := uint64(max(slices.Max(a), slices.Max(b)))
	width := longest/histogramParts + 1
	for from := uint64(0); from <= longest; from += width {
		parts = append(parts, wire.WordsInterval{From: from, Below: from + width})
	}
	for i := range a {
		parts[uint64(a[i])/width].A++
		parts[uint64(b[i])/width].B++
	}
	return parts
}

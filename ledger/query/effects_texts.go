package query

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"colophon/client/wire"
	"colophon/ledger/index/effects"
)

// maxSampled bounds the pairs that a summary of texts is about.
const maxSampled = 1000

// summary summarises how far the outputs of pairs changed. It is about all pairs, or about a
// sample of them (spec: Figures of texts).
func (t *Texts) summary(v *View, q effects.Query) (*wire.EffectTexts, error) {
	var pairs sample
	if err := effects.Each(v.Context, v.View, q, pairs.add); err != nil {
		return nil, err
	}
	answer := &wire.EffectTexts{Sample: pairs.all > maxSampled}
	var similarity, lengthChanges, wordsA, wordsB []float64
	var work textWork
	for _, pair := range pairs.smallest() {
		change, err := t.change(v.Context, textPair{outputName, pair.A, pair.B}, &work)
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
		answer.MostChanged = append(answer.MostChanged, wire.ChangedPair{A: pair.A, B: pair.B, Similarity: *change.Similarity, LengthChange: change.LengthChange})
		similarity = append(similarity, float64(*change.Similarity))
		wordsA, wordsB = append(wordsA, float64(change.A.Words)), append(wordsB, float64(change.B.Words))
		if change.LengthChange != nil {
			lengthChanges = append(lengthChanges, float64(*change.LengthChange))
		}
	}
	answer.Similarity, answer.LengthChange = quartiles(similarity), quartiles(lengthChanges)
	answer.WordsA, answer.WordsB = quartiles(wordsA), quartiles(wordsB)
	slices.SortFunc(answer.MostChanged, func(x, y wire.ChangedPair) int {
		return cmp.Or(cmp.Compare(x.Similarity, y.Similarity), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	answer.MostChanged = orEmpty(answer.MostChanged[:min(len(answer.MostChanged), v.Page.Limit)])
	return answer, nil
}

// sample is the maxSampled pairs whose hashes are smallest. Which pairs it has does not depend on
// their order.
type sample struct {
	all  int // pairs that were added
	kept []hashedPair
}

type hashedPair struct {
	effects.Seqs
	hash uint64
}

func (s *sample) add(pair effects.Seqs) {
	s.all++
	if len(s.kept) == 2*maxSampled {
		s.smallest()
	}
	text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, pair.A), pair.B)
	sum := sha256.Sum256(text)
	s.kept = append(s.kept, hashedPair{pair, binary.BigEndian.Uint64(sum[:])})
}

// smallest returns the pairs of the sample, the smallest hash first.
func (s *sample) smallest() []hashedPair {
	slices.SortFunc(s.kept, func(x, y hashedPair) int {
		return cmp.Or(cmp.Compare(x.hash, y.hash), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	s.kept = s.kept[:min(len(s.kept), maxSampled)]
	return s.kept
}

// addEffectTexts adds the figures of the texts to an answer. The summary is on the first page.
func (v *View) addEffectTexts(answer *wire.EffectsAnswer, q effects.Query) (err error) {
	if v.Texts == nil {
		return nil
	}
	if v.Page.After == nil {
		if answer.Text, err = v.Texts.summary(v, q); err != nil {
			return err
		}
	}
	var work textWork
	for i := range answer.Rows {
		row := &answer.Rows[i]
		if row.Text, err = v.outputChange(&row.A.Seq, row.B.Seq, &work); err != nil {
			return err
		}
	}
	return nil
}

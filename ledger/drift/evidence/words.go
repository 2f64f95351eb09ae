package evidence

import (
	"cmp"
	"math"
	"slices"
)

// WordShares measures, for each word, how much the fraction of outputs that contain the word changes. The
// statistic is the largest standardised change of any word.
//
// The largest of many changes is often large by chance. PermutationTest compares it with the largest change
// in each split, so no further correction for the number of words is necessary (Westfall and Young's
// single-step max-T).
type WordShares struct {
	inputs []RunCounts
	runs   [][][]int    // indexes into kept of each run's words; runs is indexed by input and run
	kept   []ScoredWord // the words that are not left out (see rare)
	spread []float64    // standard deviation of the change of each kept word
	sums   []float64    // change of each kept word in the current split, summed over the inputs
}

// rare is the minimum number of runs that must differ from most runs of their input in whether they
// contain a word. If fewer runs differ, the word is unlikely to be evidence, so NewWordShares
// leaves it out to save time. Which words are left out does not depend on the split, so the test
// remains exact.
const rare = 5

// NewWordShares compares the shares of outputs that contain each word. sets[i][j] lists the distinct
// words in the output of run j for input i; each word is represented by a number less than count.
func NewWordShares(inputs []RunCounts, sets [][][]int, count int) *WordShares {
	w := &WordShares{inputs: inputs, runs: make([][][]int, len(inputs))}
	occurs := make([]int, count)       // number of runs of the current input that contain the word
	minority := make([]int, count)     // number of runs that contain the word although most runs of their input do not, or the reverse
	variance := make([]float64, count) // variance of the word's change, summed over the inputs
	var shares [2][]float64            // for each set, the sum over the inputs of the fraction of runs that contain the word
	shares[0], shares[1] = make([]float64, count), make([]float64, count)
	tally := func(i int) {
		for _, set := range sets[i] {
			for _, word := range set {
				occurs[word]++
			}
		}
	}
	possible := 0 // largest possible value in minority
	for i, input := range inputs {
		tally(i)
		n := input.runs()
		possible += n / 2
		for run, set := range sets[i] {
			for _, word := range set {
				if k := occurs[word]; k > 0 && k < n {
					minority[word] += min(k, n-k)
					variance[word] += float64(k*(n-k)) / float64(n*(n-1)) * (1/float64(input.Baseline) + 1/float64(input.Candidate))
				}
				occurs[word] = 0 // so that each word is counted once per input
				if run < input.Baseline {
					shares[0][word] += 1 / float64(input.Baseline)
				} else {
					shares[1][word] += 1 / float64(input.Candidate)
				}
			}
		}
	}
	number := make([]int, count) // index in kept, or -1 if left out
	for word := range count {
		if number[word] = -1; minority[word] >= max(1, min(rare, possible)) {
			number[word] = len(w.kept)
			w.kept = append(w.kept, ScoredWord{Number: word, BaselineShare: shares[0][word] / float64(len(inputs)), CandidateShare: shares[1][word] / float64(len(inputs))})
			w.spread = append(w.spread, math.Sqrt(variance[word]))
		}
	}
	for i, input := range inputs {
		tally(i)
		w.runs[i] = make([][]int, len(sets[i]))
		for run, set := range sets[i] {
			for _, word := range set {
				if number[word] >= 0 && occurs[word] < input.runs() { // a word that all runs contain cannot change
					w.runs[i][run] = append(w.runs[i][run], number[word])
				}
			}
		}
		for _, set := range sets[i] {
			for _, word := range set {
				occurs[word] = 0
			}
		}
	}
	w.sums = make([]float64, len(w.kept))
	return w
}

// add sets w.sums to the changes of the words in a split, summed over the inputs.
func (w *WordShares) add(s Split) {
	clear(w.sums)
	for i, input := range w.inputs {
		for at, run := range s[i] {
			weight := -1 / float64(input.Baseline)
			if at >= input.Baseline {
				weight = 1 / float64(input.Candidate)
			}
			for _, word := range w.runs[i][run] {
				w.sums[word] += weight
			}
		}
	}
}

// Value implements Statistic.
func (w *WordShares) Value(s Split) float64 {
	w.add(s)
	largest := 0.0
	for word, sum := range w.sums {
		largest = max(largest, math.Abs(sum)/w.spread[word])
	}
	return largest
}

// ScoredWord is a word and the fractions of outputs in both sets that contain it.
type ScoredWord struct {
	Number int // the word's number, as passed to NewWordShares
	// BaselineShare and CandidateShare are the fractions of outputs in each set that contain the
	// word, averaged over the inputs.
	BaselineShare, CandidateShare float64
	Score                         float64 // absolute value of the standardised change
}

// Words returns the words that the statistic covers, those with the largest scores first.
func (w *WordShares) Words() []ScoredWord {
	w.add(observed(w.inputs))
	list := slices.Clone(w.kept)
	for at := range list {
		list[at].Score = math.Abs(w.sums[at]) / w.spread[at]
	}
	slices.SortStableFunc(list, func(a, b ScoredWord) int { return cmp.Compare(b.Score, a.Score) })
	return list
}

// Inputs implements Statistic.
func (w *WordShares) Inputs() []RunCounts { return w.inputs }

func (w *WordShares) logSplits(i RunCounts) float64 { return i.logSplits() }

func (w *WordShares) sides() float64 { return 2 }

// VariesBySplit reports whether the statistic covers any word. If not, the statistic is always 0.
func (w *WordShares) VariesBySplit() bool { return len(w.kept) > 0 }

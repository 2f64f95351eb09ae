package evidence_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/drift/evidence"
)

// pairs returns run counts for n inputs, each with one baseline run and one candidate run.
func pairs(n int) []evidence.RunCounts {
	list := make([]evidence.RunCounts, n)
	for i := range list {
		list[i] = evidence.RunCounts{Baseline: 1, Candidate: 1}
	}
	return list
}

// differing returns one pair of values for each difference d: 10 for the baseline run and 10 + d
// for the candidate run.
func differing(differences ...float64) [][]float64 {
	values := make([][]float64, len(differences))
	for i, d := range differences {
		values[i] = []float64{10, 10 + d}
	}
	return values
}

// pValue returns the p-value of a statistic for the observed split.
func pValue(inputs []evidence.RunCounts, s evidence.Statistic) float64 {
	null := evidence.PermutationTest(inputs, 999, 1, s)[0]
	return null.PValue(null.ObservedValue)
}

func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		name   string
		inputs []evidence.RunCounts
		values [][]float64
		upward bool
		want   float64
	}{
		{"the largest and the smallest of 2^3 sums", pairs(3), differing(1, 2, 3), false, 2.0 / 8},
		{"only the largest", pairs(3), differing(1, 2, 3), true, 1.0 / 8},
		{"one against the others: 6, 4, and their opposites", pairs(3), differing(-1, 2, 3), false, 4.0 / 8},
		{"six pairs are the fewest for 5%", pairs(6), differing(1, 1, 1, 1, 1, 1), false, 2.0 / 64},
		{"McNemar's exact test, 6 of 7: (7+1)/2^7", pairs(10), differing(1, 1, 1, 1, 1, 1, -1, 0, 0, 0), true, 8.0 / 128},
		{"and for both sides", pairs(10), differing(1, 1, 1, 1, 1, 1, -1, 0, 0, 0), false, 16.0 / 128},
		{"Fisher's exact test of 1 in 4 and 3 in 4: (16+1)/70", []evidence.RunCounts{{Baseline: 4, Candidate: 4}},
			[][]float64{{1, 0, 0, 0, 1, 1, 1, 0}}, true, 17.0 / 70},
		{"two runs and one: 3 and 1 are 1.5 from the mean of the others, and 2 is 0", []evidence.RunCounts{{Baseline: 2, Candidate: 1}},
			[][]float64{{1, 2, 3}}, false, 2.0 / 3},
		{"no difference at all", pairs(3), differing(0, 0, 0), false, 1},
		{"a decrease is no finding", pairs(3), differing(-1, -1, -1), true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := evidence.NewMeanDifference(c.inputs, c.values, c.upward)
			require.InDelta(t, c.want, pValue(c.inputs, s), 1e-12)
		})
	}
}

// table returns a distance function for the runs of one input. The distance is 1 for the pairs in
// ones, and 0 for all other pairs.
func table(ones ...[2]int) func(a, b int) float64 {
	return func(a, b int) float64 {
		for _, pair := range ones {
			if pair == [2]int{a, b} || pair == [2]int{b, a} {
				return 1
			}
		}
		return 0
	}
}

func TestExcess(t *testing.T) {
	apart := table([2]int{0, 2}, [2]int{1, 2})                              // the third run differs from the first two
	halves := table([2]int{0, 2}, [2]int{0, 3}, [2]int{1, 2}, [2]int{1, 3}) // the last two differ from the first two
	noise := table([2]int{0, 1}, [2]int{0, 2}, [2]int{1, 2})                // all runs differ
	one, two := evidence.RunCounts{Baseline: 2, Candidate: 1}, evidence.RunCounts{Baseline: 2, Candidate: 2}
	for _, c := range []struct {
		name            string
		inputs          []evidence.RunCounts
		distance        func(a, b int) float64
		between, within float64
		want            float64
	}{
		{"one of three splits", []evidence.RunCounts{one}, apart, 1, 0, 1.0 / 3},
		{"one of 3^3 splits", []evidence.RunCounts{one, one, one}, apart, 1, 0, 1.0 / 27},
		{"two of six splits, which exchange the sets", []evidence.RunCounts{two}, halves, 1, 0, 2.0 / 6},
		{"of 3^2 splits", []evidence.RunCounts{two, two}, halves, 1, 0, 1.0 / 9},
		{"everything differs, also within the baseline", []evidence.RunCounts{one, one}, noise, 1, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := evidence.NewExcessDistance(c.inputs, func(_, a, b int) float64 { return c.distance(a, b) })
			between, within, each := s.MeanDistances()
			require.InDelta(t, c.between, between, 1e-12)
			require.InDelta(t, c.within, within, 1e-12)
			require.Len(t, each, len(c.inputs))
			require.InDelta(t, c.want, pValue(c.inputs, s), 1e-12)
		})
	}
}

// NewExcessDistance ignores inputs without repeated runs, because their chance variation is unknown.
func TestExcessNeedsRepeats(t *testing.T) {
	s := evidence.NewExcessDistance(pairs(50), func(_, _, _ int) float64 { return 1 })
	require.Empty(t, s.Inputs())
	require.False(t, s.VariesBySplit())
	require.Equal(t, 1.0, evidence.SmallestPValue(s))
	require.Equal(t, 1.0, pValue(pairs(2), evidence.NewExcessDistance(pairs(2), func(_, _, _ int) float64 { return 1 })))
}

func TestWords(t *testing.T) {
	const everywhere, added, sometimes = 0, 1, 2
	sets := make([][][]int, 6)
	for i := range sets {
		sets[i] = [][]int{{everywhere}, {everywhere, added}}
	}
	sets[0][0] = append(sets[0][0], sometimes)
	inputs := pairs(len(sets))
	s := evidence.NewWordShares(inputs, sets, 3)
	require.True(t, s.VariesBySplit())
	require.InDelta(t, 2.0/64, pValue(inputs, s), 1e-12)
	all := s.Words()
	require.Len(t, all, 1, "the other words cannot be evidence")
	require.Equal(t, evidence.ScoredWord{Number: added, BaselineShare: 0, CandidateShare: 1, Score: 6 / math.Sqrt(6)}, all[0])

	same := evidence.NewWordShares(inputs, [][][]int{{{0}, {0}}, {{0}, {0}}, {{0}, {0}}, {{0}, {0}}, {{0}, {0}}, {{0}, {0}}}, 1)
	require.False(t, same.VariesBySplit())
	require.Equal(t, 1.0, pValue(inputs, same))
}

// If only some runs of an input contain a word, the word's score uses the variance of sampling
// without replacement.
func TestWordsOfRepeats(t *testing.T) {
	inputs := []evidence.RunCounts{{Baseline: 2, Candidate: 3}, {Baseline: 2, Candidate: 3}, {Baseline: 2, Candidate: 3}, {Baseline: 2, Candidate: 3}, {Baseline: 2, Candidate: 3}}
	sets := make([][][]int, len(inputs))
	for i := range sets {
		sets[i] = [][]int{{}, {0}, {0}, {}, {0}}
	}
	all := evidence.NewWordShares(inputs, sets, 1).Words()
	require.Len(t, all, 1)
	require.InDelta(t, 1.0/2, all[0].BaselineShare, 1e-12)
	require.InDelta(t, 2.0/3, all[0].CandidateShare, 1e-12)
	// In each input, 3 of 5 runs contain the word, so s² = 3·2/(5·4), and the variance is s²·(1/2 + 1/3).
	require.InDelta(t, 5*(2.0/3-1.0/2)/math.Sqrt(5*0.3*(1.0/2+1.0/3)), all[0].Score, 1e-12)
}

func TestSmallestAndNeeded(t *testing.T) {
	one, two := evidence.RunCounts{Baseline: 1, Candidate: 1}, evidence.RunCounts{Baseline: 2, Candidate: 1}
	both := evidence.NewMeanDifference(pairs(5), differing(1, 1, 1, 1, 1), false)
	require.InDelta(t, 2.0/32, evidence.SmallestPValue(both), 1e-12)
	require.Equal(t, 6, evidence.MinInputCount(both, 0.05, one))
	require.Equal(t, 8, evidence.MinInputCount(both, 0.01, one))
	upward := evidence.NewMeanDifference(pairs(5), differing(1, 1, 1, 1, 1), true)
	require.InDelta(t, 1.0/32, evidence.SmallestPValue(upward), 1e-12)
	require.Equal(t, 5, evidence.MinInputCount(upward, 0.05, one))
	repeated := evidence.NewExcessDistance([]evidence.RunCounts{two, two}, func(_, _, _ int) float64 { return 1 })
	require.InDelta(t, 1.0/9, evidence.SmallestPValue(repeated), 1e-12)
	require.Equal(t, 3, evidence.MinInputCount(repeated, 0.05, two)) // with 3 inputs, the smallest p-value is 1/27
	require.Equal(t, 6, evidence.MinInputCount(evidence.NewMeanDifference(nil, nil, false), 0.05, one))
}

func TestRandomSplits(t *testing.T) {
	inputs := pairs(40)
	up := make([]float64, len(inputs))
	for i := range up {
		up[i] = 1
	}
	require.InDelta(t, 1.0/1000, pValue(inputs, evidence.NewMeanDifference(inputs, differing(up...), false)), 1e-12, "no random split is as far apart as the observed one")

	// In 26 of 40 inputs the value increases: the exact two-sided p-value is twice the binomial tail.
	for i := range 14 {
		up[i] = -1
	}
	exact := 2 * evidence.BinomialTail(26, 40, 0.5)
	null := evidence.PermutationTest(inputs, 20000, 7, evidence.NewMeanDifference(inputs, differing(up...), false))[0]
	require.InDelta(t, exact, null.PValue(null.ObservedValue), 0.01)
	again := evidence.PermutationTest(inputs, 20000, 7, evidence.NewMeanDifference(inputs, differing(up...), false))[0]
	require.Equal(t, null.PValue(null.ObservedValue), again.PValue(again.ObservedValue))
}

func TestAdjust(t *testing.T) {
	require.InDeltaSlice(t, []float64{0.03, 0.06, 0.06}, evidence.HolmAdjust([]float64{0.01, 0.04, 0.03}), 1e-12)
	require.InDeltaSlice(t, []float64{1, 1}, evidence.HolmAdjust([]float64{0.9, 0.8}), 1e-12)
	require.Empty(t, evidence.HolmAdjust(nil))
}

func TestBinomialTail(t *testing.T) {
	for _, c := range []struct {
		k, n   int
		chance float64
		want   float64
	}{{8, 10, 0.5, 56.0 / 1024}, {3, 5, 0.2, 0.05792}, {1, 5, 0, 0}, {0, 5, 0, 1}, {6, 5, 0.5, 0}, {5, 5, 1, 1}, {10, 10, 0.5, 1.0 / 1024}} {
		require.InDelta(t, c.want, evidence.BinomialTail(c.k, c.n, c.chance), 1e-12, "%d of %d at %v", c.k, c.n, c.chance)
	}
}

func TestBootstrap(t *testing.T) {
	require.Equal(t, evidence.Interval{Low: 2, High: 2}, evidence.Bootstrap([]float64{2, 2, 2}, 0.05, 1))

	// The interval is close to the normal approximation: 1.96 standard errors on each side of the mean.
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, 400)
	mean, square := 0.0, 0.0
	for i := range values {
		values[i] = random.NormFloat64()
		mean += values[i] / float64(len(values))
	}
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	half := 1.96 * math.Sqrt(square/float64(len(values))/float64(len(values)))
	got := evidence.Bootstrap(values, 0.05, 1)
	require.InDelta(t, mean-half, got.Low, half/5)
	require.InDelta(t, mean+half, got.High, half/5)

	shifted := evidence.BootstrapDifference([]float64{1, 1}, []float64{4, 4, 4}, 0.05, 1)
	require.Equal(t, evidence.Interval{Low: 3, High: 3}, shifted)
}

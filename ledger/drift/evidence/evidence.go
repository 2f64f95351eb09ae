// Package evidence tests whether two sets of runs, a baseline and a candidate, differ by more than
// chance (docs/ci.md, "The test").
//
// The outputs of one input vary from run to run. The null hypothesis is that the sets do not differ:
// each run of an input, in either set, is an independent draw from the same distribution. Under this
// hypothesis, every way to choose the baseline from the runs of the input is equally likely. A
// permutation test counts the splits whose sets are at least as far apart as the observed sets. The
// test makes no assumption about how outputs vary, and is exact for any number of inputs.
package evidence

import (
	"math"
	"math/rand/v2"
	"slices"
)

// RunCounts holds the number of runs of one input in each of the two sets. The runs are numbered from
// 0, starting with those of the baseline.
type RunCounts struct{ Baseline, Candidate int }

// runs returns the number of runs in both sets.
func (i RunCounts) runs() int { return i.Baseline + i.Candidate }

// logSplits returns the natural logarithm of the number of ways to choose the runs of the baseline.
func (i RunCounts) logSplits() float64 {
	return logFactorial(i.runs()) - logFactorial(i.Baseline) - logFactorial(i.Candidate)
}

func logFactorial(n int) float64 {
	l, _ := math.Lgamma(float64(n) + 1)
	return l
}

// Split divides the runs of each input into two sets. Each element lists all runs of one input,
// starting with the runs that are assigned to the baseline.
type Split [][]int

// observed returns the split in which each run is in the set that it came from.
func observed(inputs []RunCounts) Split {
	s := make(Split, len(inputs))
	for i, input := range inputs {
		s[i] = make([]int, input.runs())
		for j := range s[i] {
			s[i][j] = j
		}
	}
	return s
}

// Statistic measures how far apart two sets are.
type Statistic interface {
	// Value returns the distance between the two sets that a split produces.
	Value(Split) float64
	// Inputs returns the inputs whose splits can change the distance.
	Inputs() []RunCounts
	// logSplits returns the natural logarithm of the number of splits of an input that the statistic
	// distinguishes.
	logSplits(RunCounts) float64
	// sides returns 2 if the statistic is the absolute value of a difference, because two opposite
	// splits then have the largest value. In all other cases it returns 1.
	sides() float64
}

// SmallestPValue returns the smallest p-value that a test of the statistic can have.
func SmallestPValue(s Statistic) float64 {
	total := 0.0
	for _, input := range s.Inputs() {
		total += s.logSplits(input)
	}
	return min(1, s.sides()*math.Exp(-total))
}

// MinInputCount returns the smallest number of inputs for which the p-value can be at most level.
// If the statistic has no inputs, MinInputCount assumes that each input has the run counts in
// typical. The statistic must be able to distinguish the splits of such an input.
func MinInputCount(s Statistic, level float64, typical RunCounts) int {
	total, inputs := 0.0, s.Inputs()
	if len(inputs) == 0 {
		inputs = []RunCounts{typical}
	}
	for _, input := range inputs {
		total += s.logSplits(input)
	}
	const rounding = 1e-9
	return int(math.Ceil(math.Log(s.sides()/level)*float64(len(inputs))/total - rounding))
}

// NullDistribution is the distribution of a statistic under the null hypothesis.
type NullDistribution struct {
	// ObservedValue is the value of the statistic for the observed split.
	ObservedValue float64
	values        []float64 // in ascending order
	sampled       bool      // values come from a random sample of the splits rather than from all of them
}

// PValue returns the share of the splits whose statistic is at least value. If the splits are
// random, the observed split counts as one of them.
func (n *NullDistribution) PValue(value float64) float64 {
	// Sums of the same numbers in a different order can differ by rounding errors.
	value -= 1e-9 * max(1, math.Abs(value))
	below, _ := slices.BinarySearch(n.values, value)
	larger := len(n.values) - below
	if n.sampled {
		return float64(larger+1) / float64(len(n.values)+1)
	}
	return float64(larger) / float64(len(n.values))
}

// maxExact is the largest number of splits that PermutationTest enumerates. If there are more, PermutationTest
// samples random splits.
const maxExact = 1 << 13

// PermutationTest returns the distribution of each statistic over the splits of the inputs. It visits all
// splits if there are at most maxExact of them. Otherwise it visits a random sample. draws is the size of
// the sample, and seed alone determines which splits it contains.
func PermutationTest(inputs []RunCounts, draws int, seed uint64, statistics ...Statistic) []NullDistribution {
	nulls := make([]NullDistribution, len(statistics))
	split := observed(inputs)
	for i, s := range statistics {
		nulls[i].ObservedValue = s.Value(split)
	}
	visit := func(s Split) {
		for i := range nulls {
			nulls[i].values = append(nulls[i].values, statistics[i].Value(s))
		}
	}
	total := 0.0
	for _, input := range inputs {
		total += input.logSplits()
	}
	if total <= math.Log(maxExact) {
		eachSplit(inputs, visit)
	} else {
		random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- the same for everyone who repeats the test
		for range draws {
			for i, input := range inputs {
				shuffle(random, split[i], input.Baseline)
			}
			visit(split)
		}
	}
	for i := range nulls {
		nulls[i].sampled = total > math.Log(maxExact)
		slices.Sort(nulls[i].values)
	}
	return nulls
}

// shuffle moves n randomly chosen elements to the front of list.
func shuffle(random *rand.Rand, list []int, n int) {
	for i := range n {
		j := i + random.IntN(len(list)-i)
		list[i], list[j] = list[j], list[i]
	}
}

// eachSplit calls visit for every split of the inputs. visit must not keep its argument.
func eachSplit(inputs []RunCounts, visit func(Split)) {
	choices := make([][][]int, len(inputs))
	for i, input := range inputs {
		choices[i] = splitsOf(input)
	}
	at := make([]int, len(inputs)) // a mixed-radix counter; at[i] is the index of the current choice for input i
	split := make(Split, len(inputs))
	for {
		for i := range at {
			split[i] = choices[i][at[i]]
		}
		visit(split)
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] < len(choices[i]) {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			return
		}
	}
}

// splitsOf returns every split of one input.
func splitsOf(input RunCounts) (all [][]int) {
	chosen := make([]bool, input.runs())
	var choose func(from, left int)
	choose = func(from, left int) {
		if left == 0 {
			var baseline, candidate []int
			for run, is := range chosen {
				if is {
					baseline = append(baseline, run)
				} else {
					candidate = append(candidate, run)
				}
			}
			all = append(all, append(baseline, candidate...))
			return
		}
		for run := from; run+left <= len(chosen); run++ {
			chosen[run] = true
			choose(run+1, left-1)
			chosen[run] = false
		}
	}
	choose(0, input.Baseline)
	return all
}

// HolmAdjust returns the p-values of several tests, adjusted by Holm's method. If every test with an
// adjusted p-value of at most 5% counts as a finding, the probability of one or more false findings is
// at most 5%.
func HolmAdjust(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted, largest := make([]float64, len(p)), 0.0
	for rank, i := range order {
		largest = max(largest, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = largest
	}
	return adjusted
}

// BinomialTail returns the probability of at least k successes in n trials if each trial succeeds
// with probability chance.
func BinomialTail(k, n int, chance float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || chance <= 0:
		return 0
	case chance >= 1:
		return 1
	}
	sum := 0.0
	for i := k; i <= n; i++ {
		sum += math.Exp(RunCounts{i, n - i}.logSplits() + float64(i)*math.Log(chance) + float64(n-i)*math.Log1p(-chance))
	}
	return min(1, sum)
}

// Interval is a confidence interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

const resamples = 2000

// Bootstrap returns the percentile bootstrap interval for the mean of the given values. level is
// the probability, in the long run, that the interval misses the true mean. The interval is
// approximate, and too narrow if there are only a few values.
func Bootstrap(values []float64, level float64, seed uint64) Interval {
	return BootstrapDifference(nil, values, level, seed)
}

// BootstrapDifference is like Bootstrap, but returns the interval for the mean of candidate minus
// the mean of baseline. The two sets of values must come from different inputs.
func BootstrapDifference(baseline, candidate []float64, level float64, seed uint64) Interval {
	random := rand.New(rand.NewPCG(seed, 1)) // #nosec G404 -- the same for everyone who repeats it
	means := make([]float64, resamples)
	for i := range means {
		means[i] = resampledMean(random, candidate) - resampledMean(random, baseline)
	}
	slices.Sort(means)
	tail := int(level / 2 * resamples)
	return Interval{means[tail], means[resamples-1-tail]}
}

// resampledMean draws len(values) values at random, with replacement, and returns their mean. It
// returns 0 if there are no values.
func resampledMean(random *rand.Rand, values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for range values {
		sum += values[random.IntN(len(values))]
	}
	return sum / float64(len(values))
}

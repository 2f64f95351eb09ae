package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"colophon/ledger/drift/evidence"
)

// inputs returns the number of runs in each set for each case.
func inputs(cases []*Case) []evidence.RunCounts {
	list := make([]evidence.RunCounts, len(cases))
	for i, c := range cases {
		list[i] = evidence.RunCounts{Baseline: len(c.Baseline), Candidate: len(c.Candidate)}
	}
	return list
}

// values calls of(run) for each run and returns the results, grouped by case.
func values(cases []*Case, of func(*Run) float64) [][]float64 {
	list := make([][]float64, len(cases))
	for i, c := range cases {
		for _, run := range c.runs() {
			list[i] = append(list[i], of(run))
		}
	}
	return list
}

// prepare sets the statistic of a check. If the check cannot be tested, c.Summary says why.
func (j *judge) prepare(c *Check) {
	texts := c.Name == CheckNameSimilarity || c.Name == CheckNameLength || c.Name == CheckNameWords
	switch {
	case len(j.Cases) == 0:
		c.Summary = "Not tested: no input has runs in both sets."
	case j.WholeSets && (c.Name == CheckNameChanged || c.Name == CheckNameSimilarity):
		c.Summary = "Not tested: the sets have different inputs, so no two outputs can be compared."
	case texts && j.NoTextsReason != "":
		c.Summary = "Not tested: " + j.NoTextsReason + "."
	case texts && len(j.measured()) == 0:
		c.Summary = "Not tested: no input has the texts of all its outputs."
	case c.Name == CheckNameChanged:
		j.changed(c)
	case c.Name == CheckNameSimilarity:
		j.similarity(c)
	case c.Name == CheckNameLength:
		j.length(c)
	case c.Name == CheckNameWords:
		j.vocabulary(c)
	case c.Name == CheckNameMismatches:
		j.mismatches(c)
	}
}

const noRepeats = "no input has two runs in one set, so the variation by chance is not known: run each input of the baseline at least twice"

// prepareExcess prepares a check that compares the distances between outputs in different sets with the distances
// between outputs in the same set.
func (j *judge) prepareExcess(c *Check, cases []*Case, distance func(input, a, b int) float64, describe func(between, within float64)) {
	s := evidence.NewExcessDistance(inputs(cases), distance)
	c.Inputs = len(s.Inputs())
	if c.Inputs == 0 {
		c.Summary = "Not tested: " + noRepeats + "."
		return
	}
	between, within, each := s.MeanDistances()
	j.setStatistic(c, s, s.VariesBySplit(), each)
	c.describe = func() { describe(between, within) }
}

// setStatistic sets the statistic of a check. each holds the change for each input. varies is false if the
// statistic is the same for every split of the runs, in which case it cannot show a difference
// between the sets.
func (j *judge) setStatistic(c *Check, s evidence.Statistic, varies bool, each []float64) {
	c.statistic, c.smallest, c.constant = s, evidence.SmallestPValue(s), !varies
	c.needed = func(level float64) int {
		if !j.WholeSets {
			return evidence.InputsNeeded(s, level, evidence.RunCounts{Baseline: 1, Candidate: 1})
		}
		runs := 1 // number of runs in each set
		for evidence.SmallestPValue(evidence.NewMeanDifference([]evidence.RunCounts{{Baseline: runs, Candidate: runs}}, nil, false)) > level {
			runs++
		}
		return runs
	}
	change := 0.0
	for _, e := range each {
		change += e / float64(len(each))
	}
	c.Change = &change
	if len(each) > 1 {
		interval := evidence.Bootstrap(each, j.SignificanceLevel, seed)
		c.Interval = &interval
	}
}

func (j *judge) changed(c *Check) {
	differ, pairs := 0, 0
	repeated := false
	for _, one := range j.Cases {
		pairs++
		if one.Baseline[0].OutputHash != one.Candidate[0].OutputHash {
			differ++
		}
		repeated = repeated || len(one.Baseline)+len(one.Candidate) > 2
	}
	share := float64(differ) / float64(pairs)
	if !repeated && j.ChanceDifferenceRate != nil {
		c.Inputs = pairs
		c.Change, c.PValue, c.computed = new(share-*j.ChanceDifferenceRate), new(evidence.BinomialTail(differ, pairs, *j.ChanceDifferenceRate)), true
		c.smallest = evidence.BinomialTail(pairs, pairs, *j.ChanceDifferenceRate)
		c.needed = func(level float64) int {
			n := 1
			for evidence.BinomialTail(n, n, *j.ChanceDifferenceRate) > level {
				n++
			}
			return n
		}
		c.describe = func() {
			c.Summary = fmt.Sprintf("%s of the outputs differ (%d of %d); %s would differ by chance.", percent(share), differ, pairs, percent(*j.ChanceDifferenceRate))
		}
		return
	}
	j.prepareExcess(c, j.Cases, func(input, a, b int) float64 {
		runs := j.Cases[input].runs()
		if runs[a].OutputHash != runs[b].OutputHash {
			return 1
		}
		return 0
	}, func(between, within float64) {
		c.Summary = fmt.Sprintf("Averaged over the inputs, the outputs differ in %s of the pairs of a baseline run and a candidate run, and in %s of the pairs of runs in the same set: %s%s.",
			percent(between), percent(within), points(between-within), j.pointsInterval(c, 1))
	})
	if c.statistic == nil {
		c.Summary = fmt.Sprintf("Not tested: %s of the outputs differ (%d of %d), but %s. If outputs are reproducible, give --chance 0.", percent(share), differ, pairs, noRepeats)
	}
}

func (j *judge) similarity(c *Check) {
	cases := j.measured()
	j.prepareExcess(c, cases, func(input, a, b int) float64 {
		return 1 - cases[input].similar[a*len(cases[input].runs())+b]
	}, func(between, within float64) {
		c.Summary = fmt.Sprintf("Averaged over the inputs, the outputs of a baseline run and a candidate run are %s similar, and the outputs of two runs in the same set are %s similar: %s%s.",
			percent(1-between), percent(1-within), points(within-between), j.pointsInterval(c, -1))
	})
}

func (j *judge) length(c *Check) {
	cases := j.measured()
	c.Inputs = len(cases)
	logLength := values(cases, func(r *Run) float64 { return math.Log1p(float64(r.words)) })
	s := evidence.NewMeanDifference(inputs(cases), logLength, false)
	j.setStatistic(c, s, s.VariesBySplit(), s.PerInput())
	if j.WholeSets {
		j.wholeInterval(c, logLength)
	}
	*c.Change = math.Expm1(*c.Change)
	if c.Interval != nil {
		c.Interval.Low, c.Interval.High = math.Expm1(c.Interval.Low), math.Expm1(c.Interval.High)
	}
	c.describe = func() {
		direction := "longer"
		if *c.Change < 0 {
			direction = "shorter"
		}
		average, interval := "the inputs", ""
		if j.WholeSets {
			average = "the runs of each set"
		}
		if c.Interval != nil {
			interval = fmt.Sprintf("; %s: %+.1f%% to %+.1f%%", j.intervalName(), 100*c.Interval.Low, 100*c.Interval.High)
		}
		baseline, candidate := medianWords(cases)
		c.Summary = fmt.Sprintf("On average over %s, the candidate's outputs are %s %s (geometric mean of the lengths in words%s). The median length goes from %s to %s words.",
			average, percent(math.Abs(*c.Change)), direction, interval, words(baseline), words(candidate))
	}
}

// medianWords returns the median length of the outputs of each set, in words.
func medianWords(cases []*Case) (baseline, candidate float64) {
	var lengths [2][]int
	for _, c := range cases {
		for i := range c.Baseline {
			lengths[0] = append(lengths[0], c.Baseline[i].words)
		}
		for i := range c.Candidate {
			lengths[1] = append(lengths[1], c.Candidate[i].words)
		}
	}
	return median(lengths[0]), median(lengths[1])
}

// median returns the median of a nonempty list, which it sorts.
func median(list []int) float64 {
	slices.Sort(list)
	return float64(list[(len(list)-1)/2]+list[len(list)/2]) / 2
}

// words formats a median number of words.
func words(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// wholeInterval sets the interval of a check that compares each set as a whole instead of input by
// input.
func (j *judge) wholeInterval(c *Check, values [][]float64) {
	if len(values) == 1 {
		n := len(j.Cases[0].Baseline)
		interval := evidence.BootstrapDifference(values[0][:n], values[0][n:], j.SignificanceLevel, seed)
		c.Interval = &interval
	}
}

func (j *judge) vocabulary(c *Check) {
	cases := j.measured()
	c.Inputs = len(cases)
	sets := make([][][]int, len(cases))
	for i, one := range cases {
		for _, run := range one.runs() {
			sets[i] = append(sets[i], run.features)
		}
	}
	c.words = evidence.NewWordShares(inputs(cases), sets, len(j.ComparedRuns.words))
	j.setStatistic(c, c.words, c.words.VariesBySplit(), nil)
	if all := c.words.Words(); len(all) > 0 {
		*c.Change = math.Abs(all[0].CandidateShare - all[0].BaselineShare)
	}
	c.describe = func() {
		if len(c.Words) == 0 {
			c.Summary = "No word occurs in more or in fewer outputs by more than chance."
			return
		}
		w := c.Words[0]
		c.Summary = fmt.Sprintf("The word whose share of outputs changed most is %q: %s of the baseline's outputs contain it, and %s of the candidate's.", w.Word, percent(w.Baseline), percent(w.Candidate))
	}
}

func (j *judge) mismatches(c *Check) {
	wrong := values(j.Cases, func(r *Run) float64 {
		if r.Mismatch {
			return 1
		}
		return 0
	})
	counts := [2]int{}
	for i, one := range j.Cases {
		for run, value := range wrong[i] {
			side := 0
			if run >= len(one.Baseline) {
				side = 1
			}
			counts[side] += int(value)
		}
	}
	c.Inputs = len(j.Cases)
	baseline, candidate := j.counts()
	describe := func() {
		c.Summary = fmt.Sprintf("%d of %d baseline records and %d of %d candidate records claim a wrong hash.", counts[0], baseline, counts[1], candidate)
		if j.MaxMismatches != nil {
			c.Summary += fmt.Sprintf(" At most %d are allowed.", *j.MaxMismatches)
		}
	}
	if j.MaxMismatches != nil {
		describe()
		if c.Outcome = OutcomePassed; counts[1] > *j.MaxMismatches {
			c.Outcome = OutcomeFailed
		}
		return
	}
	s := evidence.NewMeanDifference(inputs(j.Cases), wrong, true)
	j.setStatistic(c, s, s.VariesBySplit(), s.PerInput())
	if j.WholeSets {
		j.wholeInterval(c, wrong)
	}
	c.describe = describe
}

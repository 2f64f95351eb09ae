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
func (v *evaluation) prepare(c *Check) {
	texts := c.Name == CheckNameSimilarity || c.Name == CheckNameLength || c.Name == CheckNameWords
	switch {
	case c.Name == CheckNameMismatches && v.MaxMismatches != nil:
		v.limitMismatches(c)
	case len(v.Cases) == 0:
		c.Summary = "Not tested: no input has runs in both sets."
	case v.ComparesWholeSets && (c.Name == CheckNameChanged || c.Name == CheckNameSimilarity):
		c.Summary = "Not tested: the sets have different inputs, so no two outputs can be compared."
	case texts && v.NoTextsReason != "":
		c.Summary = "Not tested: " + v.NoTextsReason + "."
	case texts && len(v.measured()) == 0:
		c.Summary = "Not tested: no input has the texts of all its outputs."
	case c.Name == CheckNameChanged:
		v.changed(c)
	case c.Name == CheckNameSimilarity:
		v.similarity(c)
	case c.Name == CheckNameLength:
		v.length(c)
	case c.Name == CheckNameWords:
		v.vocabulary(c)
	case c.Name == CheckNameMismatches:
		v.mismatches(c)
	}
}

const noRepeats = "no input has two runs in one set, so the variation by chance is not known: run each input of the baseline at least twice"

// prepareExcess prepares a check that compares the distances between outputs in different sets with the distances
// between outputs in the same set.
func (v *evaluation) prepareExcess(c *Check, cases []*Case, distance func(input, a, b int) float64, describe func(between, within float64)) {
	s := evidence.NewExcessDistance(inputs(cases), distance)
	c.Inputs = len(s.Inputs())
	if c.Inputs == 0 {
		c.Summary = "Not tested: " + noRepeats + "."
		return
	}
	between, within, each := s.MeanDistances()
	v.setStatistic(c, s, s.VariesBySplit(), each)
	c.describe = func() { describe(between, within) }
}

// setStatistic sets the statistic of a check. each holds the change for each input. varies is false if the
// statistic is the same for every split of the runs, in which case it cannot show a difference
// between the sets.
func (v *evaluation) setStatistic(c *Check, s evidence.Statistic, varies bool, each []float64) {
	c.statistic, c.smallest, c.constant = s, evidence.SmallestPValue(s), !varies
	c.needed = func(level float64) int {
		if !v.ComparesWholeSets {
			return evidence.MinInputCount(s, level, evidence.RunCounts{Baseline: 1, Candidate: 1})
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
		interval := evidence.Bootstrap(each, v.SignificanceLevel, seed)
		c.ConfidenceInterval = &interval
	}
}

func (v *evaluation) changed(c *Check) {
	differ, pairs := 0, 0
	repeated := false
	for _, one := range v.Cases {
		pairs++
		if one.Baseline[0].OutputHash != one.Candidate[0].OutputHash {
			differ++
		}
		repeated = repeated || len(one.Baseline)+len(one.Candidate) > 2
	}
	share := float64(differ) / float64(pairs)
	if !repeated && v.ChanceDifferenceRate != nil {
		c.Inputs = pairs
		c.Change, c.PValue, c.computed = new(share-*v.ChanceDifferenceRate), new(evidence.BinomialTail(differ, pairs, *v.ChanceDifferenceRate)), true
		c.smallest = evidence.BinomialTail(pairs, pairs, *v.ChanceDifferenceRate)
		c.needed = func(level float64) int {
			n := 1
			for evidence.BinomialTail(n, n, *v.ChanceDifferenceRate) > level {
				n++
			}
			return n
		}
		c.describe = func() {
			c.Summary = fmt.Sprintf("%s of the outputs differ (%d of %d); %s would differ by chance.", percent(share), differ, pairs, percent(*v.ChanceDifferenceRate))
		}
		return
	}
	v.prepareExcess(c, v.Cases, func(input, a, b int) float64 {
		runs := v.Cases[input].runs()
		if runs[a].OutputHash != runs[b].OutputHash {
			return 1
		}
		return 0
	}, func(between, within float64) {
		c.Summary = fmt.Sprintf("Averaged over the inputs, the outputs differ in %s of the pairs of a baseline run and a candidate run, and in %s of the pairs of runs in the same set: %s%s.",
			percent(between), percent(within), points(between-within), v.pointsInterval(c, 1))
	})
	if c.statistic == nil {
		c.Summary = fmt.Sprintf("Not tested: %s of the outputs differ (%d of %d), but %s. If outputs are reproducible, give --chance 0.", percent(share), differ, pairs, noRepeats)
	}
}

func (v *evaluation) similarity(c *Check) {
	cases := v.measured()
	v.prepareExcess(c, cases, func(input, a, b int) float64 {
		return 1 - cases[input].similar[a*len(cases[input].runs())+b]
	}, func(between, within float64) {
		c.Summary = fmt.Sprintf("Averaged over the inputs, the outputs of a baseline run and a candidate run are %s similar, and the outputs of two runs in the same set are %s similar: %s%s.",
			percent(1-between), percent(1-within), points(within-between), v.pointsInterval(c, -1))
	})
}

func (v *evaluation) length(c *Check) {
	cases := v.measured()
	c.Inputs = len(cases)
	logLength := values(cases, func(r *Run) float64 { return math.Log1p(float64(r.words)) })
	s := evidence.NewMeanDifference(inputs(cases), logLength, false)
	v.setStatistic(c, s, s.VariesBySplit(), s.InputDifferences())
	if v.ComparesWholeSets {
		v.wholeInterval(c, logLength)
	}
	*c.Change = math.Expm1(*c.Change)
	if c.ConfidenceInterval != nil {
		c.ConfidenceInterval.Low, c.ConfidenceInterval.High = math.Expm1(c.ConfidenceInterval.Low), math.Expm1(c.ConfidenceInterval.High)
	}
	c.describe = func() {
		direction := "longer"
		if *c.Change < 0 {
			direction = "shorter"
		}
		average, interval := "the inputs", ""
		if v.ComparesWholeSets {
			average = "the runs of each set"
		}
		if c.ConfidenceInterval != nil {
			interval = fmt.Sprintf("; %s: %+.1f%% to %+.1f%%", v.intervalName(), 100*c.ConfidenceInterval.Low, 100*c.ConfidenceInterval.High)
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
func (v *evaluation) wholeInterval(c *Check, values [][]float64) {
	if len(values) == 1 {
		n := len(v.Cases[0].Baseline)
		interval := evidence.BootstrapDifference(values[0][:n], values[0][n:], v.SignificanceLevel, seed)
		c.ConfidenceInterval = &interval
	}
}

func (v *evaluation) vocabulary(c *Check) {
	cases := v.measured()
	c.Inputs = len(cases)
	sets := make([][][]int, len(cases))
	for i, one := range cases {
		for _, run := range one.runs() {
			sets[i] = append(sets[i], run.features)
		}
	}
	c.words = evidence.NewWordShares(inputs(cases), sets, len(v.ComparedRuns.words))
	v.setStatistic(c, c.words, c.words.VariesBySplit(), nil)
	if all := c.words.Words(); len(all) > 0 {
		*c.Change = math.Abs(all[0].CandidateShare - all[0].BaselineShare)
	}
	c.describe = func() {
		if len(c.Words) == 0 {
			c.Summary = "For no word did the share of outputs that contain it change by more than chance."
			return
		}
		w := c.Words[0]
		c.Summary = fmt.Sprintf("The word whose share of outputs changed most is %q: %s of the baseline's outputs contain it, and %s of the candidate's.", w.Word, percent(w.Baseline), percent(w.Candidate))
	}
}

func (v *evaluation) mismatches(c *Check) {
	wrong := values(v.Cases, func(r *Run) float64 {
		if r.HasMismatch {
			return 1
		}
		return 0
	})
	counts := [2]int{}
	for i, one := range v.Cases {
		for run, value := range wrong[i] {
			side := 0
			if run >= len(one.Baseline) {
				side = 1
			}
			counts[side] += int(value)
		}
	}
	c.Inputs = len(v.Cases)
	baseline, candidate := v.counts()
	s := evidence.NewMeanDifference(inputs(v.Cases), wrong, true)
	v.setStatistic(c, s, s.VariesBySplit(), s.InputDifferences())
	if v.ComparesWholeSets {
		v.wholeInterval(c, wrong)
	}
	c.describe = func() { c.Summary = describeMismatches(counts, [2]int{baseline, candidate}) }
}

// limitMismatches checks Options.MaxMismatches. Unlike mismatches, it also counts the records that
// have no input in common with the other set.
func (v *evaluation) limitMismatches(c *Check) {
	c.Inputs = len(v.Cases)
	if v.RecordCounts[1] == 0 {
		c.Summary = "Not tested: the candidate has no records."
		return
	}
	c.Summary = fmt.Sprintf("%s At most %d are allowed.", describeMismatches(v.MismatchCounts, v.RecordCounts), *v.MaxMismatches)
	if c.Outcome = OutcomePassed; v.MismatchCounts[1] > *v.MaxMismatches {
		c.Outcome = OutcomeFailed
	}
}

// describeMismatches states how many records of each set have wrong claims.
func describeMismatches(wrong, records [2]int) string {
	return fmt.Sprintf("%d of %d baseline records and %d of %d candidate records claim a wrong hash.", wrong[0], records[0], wrong[1], records[1])
}

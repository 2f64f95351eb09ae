package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/drift/evidence"
)

// The names of the checks.
const (
	CheckChanged    = "changed"    // outputs differ more often than by chance
	CheckSimilarity = "similarity" // outputs are less similar than by chance
	CheckLength     = "length"     // outputs became longer or shorter
	CheckWords      = "words"      // words occur in more or in fewer outputs
	CheckMismatches = "mismatches" // more records claim wrong hashes
)

// CheckNames lists the checks in the order of a report.
var CheckNames = []string{CheckChanged, CheckSimilarity, CheckLength, CheckWords, CheckMismatches}

// Options configures a gate.
type Options struct {
	// Level is the probability of a false alarm: that the gate fails although nothing changed.
	Level float64
	// Checks are the checks to make; nil means all. If the data does not allow a check in Required, the gate
	// cannot pass.
	Checks, Required []string
	// Tolerance is the largest change that passes, by check; see Check.Change. Default 0.
	Tolerance map[string]float64
	// MaxMismatches is the largest number of the candidate's records with wrong claims that passes. It is a
	// limit, not a statistical test. nil means no limit.
	MaxMismatches *int
	// Chance is the known share of outputs that differ between two runs of one input. It is used if no input
	// has repeats. nil means that it is not known.
	Chance *float64
	// Draws is the number of random splits; 0 means DefaultDraws.
	Draws int
}

// DefaultDraws is the default of Options.Draws.
const DefaultDraws = 4999

// seed makes the gate repeatable.
const seed = 1

// Verdict is the outcome of a gate.
type Verdict string

// The verdicts of a gate.
const (
	VerdictPass      Verdict = "pass"      // there is no evidence of a change beyond the tolerance
	VerdictFail      Verdict = "fail"      // there is evidence of a change beyond the tolerance
	VerdictUndecided Verdict = "undecided" // there are too few runs to tell
)

// Outcome is the outcome of a check.
type Outcome string

// The outcomes of a check.
const (
	OutcomePassed    Outcome = "passed"
	OutcomeFailed    Outcome = "failed"
	OutcomeNotTested Outcome = "not_tested"
)

// Check is a check and its outcome.
type Check struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Summary string  `json:"summary"` // a sentence with the figures, or why there is no test
	Inputs  int     `json:"inputs"`  // number of inputs that the check compares
	// Change is how far apart the sets are beyond chance, as a fraction. changed: the increase of the share of
	// outputs that differ; similarity: the decrease of the similarity; length: the relative change; words: the
	// largest change of the share of outputs with a word; mismatches: the increase of the share of records.
	Change    *float64           `json:"change,omitempty"`
	Tolerance float64            `json:"tolerance"`
	Interval  *evidence.Interval `json:"interval,omitempty"`
	// P is the p-value of the test. AdjustedP is P adjusted for the number of checks; it is compared with the
	// level.
	P         *float64     `json:"p,omitempty"`
	AdjustedP *float64     `json:"adjusted_p,omitempty"`
	Needed    int          `json:"needed,omitempty"` // the smallest number of inputs that would suffice as evidence, if there are fewer
	Words     []WordChange `json:"words,omitempty"`

	statistic evidence.Statistic
	smallest  float64 // the smallest p-value that the check can have
	computed  bool    // P is set, and needs no permutation test
	constant  bool    // no split changes the statistic
	describe  func()  // sets Summary
	words     *evidence.WordShares
	null      *evidence.NullDistribution
	needed    func(level float64) int
}

// WordChange is a word, and the shares of outputs that contain it.
type WordChange struct {
	Word      string  `json:"word"`
	Baseline  float64 `json:"baseline"`
	Candidate float64 `json:"candidate"`
}

// Report is the outcome of a gate.
type Report struct {
	Verdict       Verdict    `json:"verdict"`
	Summary       string     `json:"summary"`
	AsOf          uint64     `json:"as_of,omitempty"`
	Baseline      []string   `json:"baseline,omitempty"` // the conditions that select the runs
	Candidate     []string   `json:"candidate,omitempty"`
	Matched       string     `json:"matched_by,omitempty"` // empty if the sets are compared as wholes
	Inputs        int        `json:"inputs"`               // number of inputs with runs in both sets
	Repeated      int        `json:"repeated_inputs"`      // number of these with repeats, which show the variation by chance
	Uneven        int        `json:"uneven_inputs"`        // number of these with more runs in one set than in the other
	BaselineRuns  int        `json:"baseline_runs"`
	CandidateRuns int        `json:"candidate_runs"`
	BaselineOnly  int        `json:"baseline_only"` // inputs that only one set has; they are not compared
	CandidateOnly int        `json:"candidate_only"`
	Skipped       int        `json:"runs_left,omitempty"` // number of runs that are not compared; see ComparedRuns.Skipped
	Level         float64    `json:"level"`
	Needed        int        `json:"needed,omitempty"` // if undecided: the smallest number of inputs that would suffice as evidence
	Differ        []Variable `json:"differ"`           // variables whose values differ between the sets
	Checks        []Check    `json:"checks"`
}

// Judge runs the checks and reports their outcomes.
func Judge(d *ComparedRuns, o Options) *Report {
	if o.Draws == 0 {
		o.Draws = DefaultDraws
	}
	r := &Report{Level: o.Level, Inputs: len(d.Cases), BaselineOnly: d.Unmatched[0], CandidateOnly: d.Unmatched[1], Skipped: d.Skipped, Differ: d.differences()}
	r.BaselineRuns, r.CandidateRuns = d.counts()
	for _, c := range d.Cases {
		if !d.Whole && len(c.Baseline)+len(c.Candidate) > 2 {
			r.Repeated++
		}
		if !d.Whole && len(c.Baseline) != len(c.Candidate) {
			r.Uneven++
		}
	}
	j := &judge{ComparedRuns: d, Options: o}
	for _, name := range CheckNames {
		if o.Checks == nil || slices.Contains(o.Checks, name) {
			r.Checks = append(r.Checks, Check{Name: name, Outcome: OutcomeNotTested, Tolerance: o.Tolerance[name]})
		}
	}
	for i := range r.Checks {
		j.prepare(&r.Checks[i])
	}
	j.test(r.Checks)
	r.conclude(j)
	return r
}

// judge combines what a gate compares with its options.
type judge struct {
	*ComparedRuns
	Options
}

// inputs returns the number of runs in each set, case by case.
func inputs(cases []*Case) []evidence.RunCounts {
	list := make([]evidence.RunCounts, len(cases))
	for i, c := range cases {
		list[i] = evidence.RunCounts{Baseline: len(c.Baseline), Candidate: len(c.Candidate)}
	}
	return list
}

// values calls of for each run, and returns the results case by case.
func values(cases []*Case, of func(*Run) float64) [][]float64 {
	list := make([][]float64, len(cases))
	for i, c := range cases {
		for _, run := range c.runs() {
			list[i] = append(list[i], of(run))
		}
	}
	return list
}

// prepare sets the statistic of a check, or says in Summary why there is none.
func (j *judge) prepare(c *Check) {
	texts := c.Name == CheckSimilarity || c.Name == CheckLength || c.Name == CheckWords
	switch {
	case len(j.Cases) == 0:
		c.Summary = "Not tested: no input has runs in both sets."
	case j.Whole && (c.Name == CheckChanged || c.Name == CheckSimilarity):
		c.Summary = "Not tested: the sets have different inputs, so no two outputs can be compared."
	case texts && j.NoTexts != "":
		c.Summary = "Not tested: " + j.NoTexts + "."
	case texts && len(j.measured()) == 0:
		c.Summary = "Not tested: no input has the texts of all its outputs."
	case c.Name == CheckChanged:
		j.changed(c)
	case c.Name == CheckSimilarity:
		j.similarity(c)
	case c.Name == CheckLength:
		j.length(c)
	case c.Name == CheckWords:
		j.vocabulary(c)
	case c.Name == CheckMismatches:
		j.mismatches(c)
	}
}

const noRepeats = "no input has two runs in one set, so the variation by chance is not known: run each input of the baseline at least twice"

// excess prepares a check that compares the distances between outputs of different sets with those within a
// set.
func (j *judge) excess(c *Check, cases []*Case, distance func(input, a, b int) float64, describe func(between, within float64)) {
	s := evidence.NewExcess(inputs(cases), distance)
	c.Inputs = len(s.Inputs())
	if c.Inputs == 0 {
		c.Summary = "Not tested: " + noRepeats + "."
		return
	}
	between, within, each := s.Means()
	j.use(c, s, s.Varies(), each)
	c.describe = func() { describe(between, within) }
}

// use sets the statistic of a check. each has the change of each input. If varies is false, no split
// changes the statistic, so the sets do not differ in it.
func (j *judge) use(c *Check, s evidence.Statistic, varies bool, each []float64) {
	c.statistic, c.smallest, c.constant = s, evidence.SmallestPValue(s), !varies
	c.needed = func(level float64) int {
		if !j.Whole {
			return evidence.InputsNeeded(s, level, evidence.RunCounts{Baseline: 1, Candidate: 1})
		}
		runs := 1 // in each set
		for evidence.SmallestPValue(evidence.NewDifference([]evidence.RunCounts{{Baseline: runs, Candidate: runs}}, nil, false)) > level {
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
		interval := evidence.Bootstrap(each, j.Level, seed)
		c.Interval = &interval
	}
}

func (j *judge) changed(c *Check) {
	differ, pairs := 0, 0
	repeated := false
	for _, one := range j.Cases {
		pairs++
		if one.Baseline[0].Output != one.Candidate[0].Output {
			differ++
		}
		repeated = repeated || len(one.Baseline)+len(one.Candidate) > 2
	}
	share := float64(differ) / float64(pairs)
	if !repeated && j.Chance != nil {
		c.Inputs = pairs
		c.Change, c.P, c.computed = new(share-*j.Chance), new(evidence.BinomialTail(differ, pairs, *j.Chance)), true
		c.smallest = evidence.BinomialTail(pairs, pairs, *j.Chance)
		c.needed = func(level float64) int {
			n := 1
			for evidence.BinomialTail(n, n, *j.Chance) > level {
				n++
			}
			return n
		}
		c.describe = func() {
			c.Summary = fmt.Sprintf("%s of the outputs differ (%d of %d); by chance, %s would.", percent(share), differ, pairs, percent(*j.Chance))
		}
		return
	}
	j.excess(c, j.Cases, func(input, a, b int) float64 {
		runs := j.Cases[input].runs()
		if runs[a].Output != runs[b].Output {
			return 1
		}
		return 0
	}, func(between, within float64) {
		c.Summary = fmt.Sprintf("On average over the inputs, %s of the pairs of a baseline and a candidate run have different outputs, and %s of the pairs of runs of one set: %s%s.",
			percent(between), percent(within), points(between-within), j.pointsInterval(c, 1))
	})
	if c.statistic == nil {
		c.Summary = fmt.Sprintf("Not tested: %s of the outputs differ (%d of %d), but %s. If outputs are reproducible, give --chance 0.", percent(share), differ, pairs, noRepeats)
	}
}

func (j *judge) similarity(c *Check) {
	cases := j.measured()
	j.excess(c, cases, func(input, a, b int) float64 {
		return 1 - cases[input].similar[a*len(cases[input].runs())+b]
	}, func(between, within float64) {
		c.Summary = fmt.Sprintf("On average over the inputs, the outputs of a baseline and a candidate run are %s similar, and those of two runs of one set %s: %s%s.",
			percent(1-between), percent(1-within), points(within-between), j.pointsInterval(c, -1))
	})
}

func (j *judge) length(c *Check) {
	cases := j.measured()
	c.Inputs = len(cases)
	logLength := values(cases, func(r *Run) float64 { return math.Log1p(float64(r.words)) })
	s := evidence.NewDifference(inputs(cases), logLength, false)
	j.use(c, s, s.Varies(), s.PerInput())
	if j.Whole {
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
		if j.Whole {
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

// median returns the median of one or more numbers.
func median(list []int) float64 {
	slices.Sort(list)
	return float64(list[(len(list)-1)/2]+list[len(list)/2]) / 2
}

// words formats a median length.
func words(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// wholeInterval sets the interval of a check that compares the sets as wholes.
func (j *judge) wholeInterval(c *Check, values [][]float64) {
	if len(values) == 1 {
		n := len(j.Cases[0].Baseline)
		interval := evidence.BootstrapDifference(values[0][:n], values[0][n:], j.Level, seed)
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
	j.use(c, c.words, c.words.Varies(), nil)
	if all := c.words.All(); len(all) > 0 {
		*c.Change = math.Abs(all[0].Candidate - all[0].Baseline)
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
	s := evidence.NewDifference(inputs(j.Cases), wrong, true)
	j.use(c, s, s.Varies(), s.PerInput())
	if j.Whole {
		j.wholeInterval(c, wrong)
	}
	c.describe = describe
}

// test computes and adjusts the p-values of all checks that have a statistic, and decides their outcomes.
func (j *judge) test(checks []Check) {
	var statistics [2][]evidence.Statistic // index 1 has the checks that compare texts
	var family []*Check                    // the checks whose p-values depend on the data
	for i := range checks {
		c := &checks[i]
		if c.needed == nil || c.constant {
			continue
		}
		family = append(family, c)
		if !c.computed {
			statistics[c.texts()] = append(statistics[c.texts()], c.statistic)
		}
	}
	var nulls [2][]evidence.NullDistribution
	for of, cases := range [...][]*Case{j.Cases, j.measured()} {
		if len(statistics[of]) > 0 {
			nulls[of] = evidence.PermutationTest(inputs(cases), j.Draws, seed, statistics[of]...)
		}
	}
	p := make([]float64, len(family))
	for i, c := range family {
		if !c.computed {
			c.null, nulls[c.texts()] = &nulls[c.texts()][0], nulls[c.texts()][1:]
			c.P = new(c.null.PValue(c.null.Observed))
		}
		p[i] = *c.P
	}
	for i, adjusted := range evidence.HolmAdjust(p) {
		family[i].AdjustedP = &adjusted
	}
	// Holm's procedure compares the smallest p-value with this level.
	hardest := j.Level / float64(max(1, len(family)))
	for i := range checks {
		if checks[i].needed != nil {
			j.decide(&checks[i], hardest)
		}
	}
}

// decide sets the outcome of a check that has a statistic.
func (j *judge) decide(c *Check, hardest float64) {
	significant := !c.constant && *c.AdjustedP <= j.Level
	if significant && c.words != nil {
		j.listWords(c)
	}
	c.describe()
	change := *c.Change
	if c.Name == CheckLength {
		change = math.Abs(change)
	}
	switch {
	case significant && change > c.Tolerance:
		c.Outcome = OutcomeFailed
	case c.smallest > hardest:
		c.Needed = c.needed(hardest)
		c.Summary = fmt.Sprintf("Not enough evidence: %s; at least %d would be needed. %s", j.counted(c.Inputs), c.Needed, c.Summary)
	default:
		c.Outcome = OutcomePassed
	}
}

// texts returns the check's index in the arrays of test: 1 if the check compares texts, and 0 otherwise.
func (c *Check) texts() int {
	if c.Name == CheckChanged || c.Name == CheckMismatches {
		return 0
	}
	return 1
}

// maxListed limits the words that a report lists.
const maxListed = 10

// listWords lists the words that changed by more than chance. The largest of their changes becomes
// that of the check.
func (j *judge) listWords(c *Check) {
	var found []evidence.Word
	*c.Change = 0
	for _, w := range c.words.All() {
		if c.null.PValue(w.Score) > j.Level {
			break
		}
		*c.Change = max(*c.Change, math.Abs(w.Candidate-w.Baseline))
		found = append(found, w)
	}
	word := func(w evidence.Word) string { return j.ComparedRuns.words[w.Number] }
	slices.SortFunc(found, func(a, b evidence.Word) int { // their numbers depend on the order in which texts arrive
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(word(a), word(b)))
	})
	for _, w := range found[:min(maxListed, len(found))] {
		c.Words = append(c.Words, WordChange{word(w), w.Baseline, w.Candidate})
	}
}

// conclude sets the verdict, the summary, and Needed.
func (r *Report) conclude(j *judge) {
	var failed []string
	var passed, missing int
	onlyMismatches := len(r.Checks) == 1 && r.Checks[0].Name == CheckMismatches
	for i := range r.Checks {
		c := &r.Checks[i]
		aboutOutputs := c.Name != CheckMismatches || onlyMismatches
		switch {
		case c.Outcome == OutcomeFailed:
			failed = append(failed, c.Name)
		case c.Outcome == OutcomePassed && aboutOutputs:
			passed++
		case c.Outcome == OutcomeNotTested && slices.Contains(j.Required, c.Name):
			missing++
		}
		if aboutOutputs && c.Needed > 0 && (r.Needed == 0 || c.Needed < r.Needed) {
			r.Needed = c.Needed
		}
	}
	if r.Inputs == 0 {
		r.Needed = evidence.InputsNeeded(evidence.NewDifference(nil, nil, false), r.Level/float64(max(1, len(r.Checks))), evidence.RunCounts{Baseline: 1, Candidate: 1})
	}
	switch {
	case len(failed) > 0:
		r.Verdict, r.Needed = VerdictFail, 0
		r.Summary = fmt.Sprintf("The candidate differs from the baseline by more than chance and by more than the tolerance in %d of %d checks: %s.", len(failed), len(r.Checks), strings.Join(failed, ", "))
	case passed > 0 && missing == 0:
		r.Verdict, r.Needed = VerdictPass, 0
		r.Summary = fmt.Sprintf("There is no evidence that the candidate differs from the baseline by more than the tolerance (%s).", j.counted(r.Inputs))
	case r.Needed > 0:
		r.Verdict = VerdictUndecided
		r.Summary = fmt.Sprintf("Not enough evidence: %s; at least %d would be needed.", j.counted(r.Inputs), r.Needed)
	default:
		r.Verdict = VerdictUndecided
		r.Summary = fmt.Sprintf("Not enough evidence: %s, but a required check cannot be made.", j.counted(r.Inputs))
	}
}

// counted returns the number of inputs or, if the sets are compared as wholes, of runs.
func (j *judge) counted(inputs int) string {
	switch {
	case j.Whole:
		baseline, candidate := j.counts()
		return fmt.Sprintf("%d and %d runs in the sets", baseline, candidate)
	case inputs == 1:
		return "1 matched input"
	}
	return fmt.Sprintf("%d matched inputs", inputs)
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// points formats a difference between two shares in percentage points.
func points(difference float64) string {
	text := fmt.Sprintf("%.1f points", 100*math.Abs(difference))
	switch {
	case text == "0.0 points":
		return "no difference"
	case difference < 0:
		return text + " less"
	}
	return text + " more"
}

// intervalName names the interval of a check.
func (j *judge) intervalName() string {
	return strconv.FormatFloat(100*(1-j.Level), 'g', 4, 64) + "% interval"
}

// pointsInterval formats the interval of a check in parentheses, in percentage points, or returns "" if there
// is none. sign is -1 if the summary states the opposite of the change, and otherwise 1.
func (j *judge) pointsInterval(c *Check, sign float64) string {
	if c.Interval == nil {
		return ""
	}
	low, high := sign*c.Interval.Low, sign*c.Interval.High
	return fmt.Sprintf(" (%s: %+.1f to %+.1f points)", j.intervalName(), 100*min(low, high), 100*max(low, high))
}

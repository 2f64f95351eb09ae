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
	CheckNameChanged    = "changed"    // outputs differ more often than expected by chance
	CheckNameSimilarity = "similarity" // outputs are less similar than expected by chance
	CheckNameLength     = "length"     // outputs became longer or shorter
	CheckNameWords      = "words"      // words occur in more or in fewer outputs
	CheckNameMismatches = "mismatches" // more records claim wrong hashes
)

// CheckNames lists the names of all checks in report order.
var CheckNames = []string{CheckNameChanged, CheckNameSimilarity, CheckNameLength, CheckNameWords, CheckNameMismatches}

// Options configures a gate.
type Options struct {
	// SignificanceLevel is the maximum probability of a false alarm, that is, of the gate failing although
	// nothing has changed.
	SignificanceLevel float64
	// Checks lists the checks to run (nil means all), and RequiredChecks lists those without which
	// the gate cannot pass: their outcome must not be OutcomeNotTested.
	Checks, RequiredChecks []string
	// Tolerances maps the name of a check to the largest change at which the check still passes; see
	// Check.Change. The default is 0.
	Tolerances map[string]float64
	// MaxMismatches is the maximum number of the candidate's records that may claim wrong hashes. This is a
	// limit, not a statistical test. nil means no limit.
	MaxMismatches *int
	// ChanceDifferenceRate is the share of outputs that are expected to differ by chance between
	// two runs of the same input. It is used only if no input has several runs in a set. nil means
	// that the share is unknown.
	ChanceDifferenceRate *float64
	// Permutations is the number of random splits in a permutation test; 0 means DefaultPermutations.
	Permutations int
}

// DefaultPermutations is the default of Options.Permutations.
const DefaultPermutations = 4999

// seed is constant so that the gate's results are reproducible.
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
	OutcomePassed    Outcome = "passed"     // there is no evidence of a change beyond the tolerance
	OutcomeFailed    Outcome = "failed"     // there is evidence of a change beyond the tolerance
	OutcomeNotTested Outcome = "not_tested" // the check could not be made; Summary says why
)

// Check describes a check and its outcome.
type Check struct {
	Name    string  `json:"name"` // one of CheckNames
	Outcome Outcome `json:"outcome"`
	Summary string  `json:"summary"` // a sentence with the figures, or the reason why the check was not tested
	Inputs  int     `json:"inputs"`  // number of inputs that the check compares
	// Change measures the difference between the sets, as a fraction. Its meaning depends on the
	// check:
	//   - changed: the increase in the share of outputs that differ
	//   - similarity: the decrease in similarity
	//   - length: the relative change
	//   - words: the largest change in the share of outputs that contain a given word
	//   - mismatches: the increase in the share of records that claim wrong hashes
	Change             *float64           `json:"change,omitempty"`
	Tolerance          float64            `json:"tolerance"` // largest change at which the check passes
	ConfidenceInterval *evidence.Interval `json:"interval,omitempty"`
	// PValue is the test's p-value before it is adjusted for the number of checks. The gate
	// compares AdjustedPValue, the result of the adjustment, with Options.SignificanceLevel.
	PValue         *float64 `json:"p,omitempty"`
	AdjustedPValue *float64 `json:"adjusted_p,omitempty"` // PValue, adjusted for the number of checks
	NeededInputs   int      `json:"needed,omitempty"`     // if there are too few inputs, the smallest number that would suffice as evidence
	// Words lists at most ten words whose share of outputs changed by more than chance explains.
	Words []WordChange `json:"words,omitempty"`

	statistic evidence.Statistic
	smallest  float64 // the smallest p-value that is possible with this number of runs
	computed  bool    // PValue has been set without a permutation test
	constant  bool    // the statistic is the same for every split of the runs
	describe  func()  // sets Summary
	words     *evidence.WordShares
	null      *evidence.NullDistribution
	needed    func(level float64) int
}

// WordChange holds a word and, for each set, the share of outputs that contain it.
type WordChange struct {
	Word      string  `json:"word"`
	Baseline  float64 `json:"baseline"`  // share of the baseline's outputs that contain the word, from 0 to 1
	Candidate float64 `json:"candidate"` // share of the candidate's outputs that contain the word, from 0 to 1
}

// Report describes the outcome of a gate and of its checks.
type Report struct {
	Verdict             Verdict              `json:"verdict"`
	Summary             string               `json:"summary"`              // the verdict and its reason in words
	AsOf                uint64               `json:"as_of,omitempty"`      // tree size at which the runs were read
	BaselineConditions  []string             `json:"baseline,omitempty"`   // conditions that select the runs of the baseline
	CandidateConditions []string             `json:"candidate,omitempty"`  // like BaselineConditions
	MatchKey            string               `json:"matched_by,omitempty"` // the value that identifies an input; empty if the sets are compared as wholes
	Inputs              int                  `json:"inputs"`               // number of inputs with runs in both sets
	RepeatedInputs      int                  `json:"repeated_inputs"`      // number of matched inputs that have several runs in a set; they show the variation by chance
	UnevenInputs        int                  `json:"uneven_inputs"`        // number of matched inputs that have different numbers of runs in the two sets
	BaselineRuns        int                  `json:"baseline_runs"`        // number of compared runs of the baseline
	CandidateRuns       int                  `json:"candidate_runs"`       // number of compared runs of the candidate
	BaselineOnlyInputs  int                  `json:"baseline_only"`        // number of inputs that only the baseline has; they are not compared
	CandidateOnlyInputs int                  `json:"candidate_only"`       // like BaselineOnlyInputs
	SkippedRuns         int                  `json:"runs_left,omitempty"`  // number of runs that are not compared; see ComparedRuns.SkippedRuns
	SignificanceLevel   float64              `json:"level"`                // maximum probability of a false alarm
	NeededInputs        int                  `json:"needed,omitempty"`     // if undecided: the smallest number of inputs that would suffice as evidence
	Differences         []VariableDifference `json:"differ"`               // variables that differ between the sets
	Checks              []Check              `json:"checks"`               // in the order of CheckNames
}

// RunChecks runs the checks and reports their outcomes.
func RunChecks(d *ComparedRuns, o Options) *Report {
	if o.Permutations == 0 {
		o.Permutations = DefaultPermutations
	}
	r := &Report{SignificanceLevel: o.SignificanceLevel, Inputs: len(d.Cases), BaselineOnlyInputs: d.UnmatchedInputCounts[0], CandidateOnlyInputs: d.UnmatchedInputCounts[1], SkippedRuns: d.SkippedRuns, Differences: d.differences()}
	r.BaselineRuns, r.CandidateRuns = d.counts()
	for _, c := range d.Cases {
		if !d.ComparesWholeSets && len(c.Baseline)+len(c.Candidate) > 2 {
			r.RepeatedInputs++
		}
		if !d.ComparesWholeSets && len(c.Baseline) != len(c.Candidate) {
			r.UnevenInputs++
		}
	}
	v := &evaluation{ComparedRuns: d, Options: o}
	for _, name := range CheckNames {
		if o.Checks == nil || slices.Contains(o.Checks, name) {
			r.Checks = append(r.Checks, Check{Name: name, Outcome: OutcomeNotTested, Tolerance: o.Tolerances[name]})
		}
	}
	for i := range r.Checks {
		v.prepare(&r.Checks[i])
	}
	v.test(r.Checks)
	r.conclude(v)
	return r
}

// evaluation holds the runs and the options that the checks use.
type evaluation struct {
	*ComparedRuns
	Options
}

// test computes and adjusts the p-values of all checks that have a statistic, and decides their outcomes.
func (v *evaluation) test(checks []Check) {
	var statistics [2][]evidence.Statistic // index 1 holds the statistics of the checks that compare texts
	var family []*Check                    // the checks whose p-values depend on the data
	for i := range checks {
		c := &checks[i]
		if c.needed == nil || c.constant {
			continue
		}
		family = append(family, c)
		if !c.computed {
			statistics[c.testIndex()] = append(statistics[c.testIndex()], c.statistic)
		}
	}
	var nulls [2][]evidence.NullDistribution
	for of, cases := range [...][]*Case{v.Cases, v.measured()} {
		if len(statistics[of]) > 0 {
			nulls[of] = evidence.PermutationTest(inputs(cases), v.Permutations, seed, statistics[of]...)
		}
	}
	p := make([]float64, len(family))
	for i, c := range family {
		if !c.computed {
			c.null, nulls[c.testIndex()] = &nulls[c.testIndex()][0], nulls[c.testIndex()][1:]
			c.PValue = new(c.null.PValue(c.null.ObservedValue))
		}
		p[i] = *c.PValue
	}
	for i, adjusted := range evidence.HolmAdjust(p) {
		family[i].AdjustedPValue = &adjusted
	}
	// Holm's procedure compares the smallest p-value with this level.
	hardest := v.SignificanceLevel / float64(max(1, len(family)))
	for i := range checks {
		if checks[i].needed != nil {
			v.decide(&checks[i], hardest)
		}
	}
}

// decide sets the outcome of a check that has a statistic.
func (v *evaluation) decide(c *Check, hardest float64) {
	significant := !c.constant && *c.AdjustedPValue <= v.SignificanceLevel
	if significant && c.words != nil {
		v.listWords(c)
	}
	c.describe()
	change := *c.Change
	if c.Name == CheckNameLength {
		change = math.Abs(change)
	}
	switch {
	case significant && change > c.Tolerance:
		c.Outcome = OutcomeFailed
	case c.smallest > hardest:
		c.NeededInputs = c.needed(hardest)
		c.Summary = fmt.Sprintf("Not enough evidence: %s; at least %d would be needed. %s", v.counted(c.Inputs), c.NeededInputs, c.Summary)
	default:
		c.Outcome = OutcomePassed
	}
}

// testIndex returns the index of the check in the arrays in evaluation.test: 1 if the check
// compares texts, and 0 otherwise.
func (c *Check) testIndex() int {
	if c.Name == CheckNameChanged || c.Name == CheckNameMismatches {
		return 0
	}
	return 1
}

// maxListed is the maximum number of words that a report lists.
const maxListed = 10

// listWords lists the words whose frequency changed by more than chance can explain. It sets
// c.Change to the largest of these changes.
func (v *evaluation) listWords(c *Check) {
	var found []evidence.ScoredWord
	*c.Change = 0
	for _, w := range c.words.Words() {
		if c.null.PValue(w.Score) > v.SignificanceLevel {
			break
		}
		*c.Change = max(*c.Change, math.Abs(w.CandidateShare-w.BaselineShare))
		found = append(found, w)
	}
	word := func(w evidence.ScoredWord) string { return v.ComparedRuns.words[w.Number] }
	slices.SortFunc(found, func(a, b evidence.ScoredWord) int { // break ties by word, because word numbers depend on the order in which texts arrive
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(word(a), word(b)))
	})
	for _, w := range found[:min(maxListed, len(found))] {
		c.Words = append(c.Words, WordChange{word(w), w.BaselineShare, w.CandidateShare})
	}
}

// conclude sets the verdict, the summary, and NeededInputs.
func (r *Report) conclude(v *evaluation) {
	var failed []string
	var passed, missing int
	onlyMismatches := len(r.Checks) == 1 && r.Checks[0].Name == CheckNameMismatches
	for i := range r.Checks {
		c := &r.Checks[i]
		aboutOutputs := c.Name != CheckNameMismatches || onlyMismatches
		switch {
		case c.Outcome == OutcomeFailed:
			failed = append(failed, c.Name)
		case c.Outcome == OutcomePassed && aboutOutputs:
			passed++
		case c.Outcome == OutcomeNotTested && slices.Contains(v.RequiredChecks, c.Name):
			missing++
		}
		if aboutOutputs && c.NeededInputs > 0 && (r.NeededInputs == 0 || c.NeededInputs < r.NeededInputs) {
			r.NeededInputs = c.NeededInputs
		}
	}
	if r.Inputs == 0 {
		r.NeededInputs = evidence.MinInputCount(evidence.NewMeanDifference(nil, nil, false), r.SignificanceLevel/float64(max(1, len(r.Checks))), evidence.RunCounts{Baseline: 1, Candidate: 1})
	}
	switch {
	case len(failed) > 0:
		r.Verdict, r.NeededInputs = VerdictFail, 0
		r.Summary = fmt.Sprintf("The candidate differs from the baseline by more than chance and by more than the tolerance in %d of %d checks: %s.", len(failed), len(r.Checks), strings.Join(failed, ", "))
	case passed > 0 && missing == 0:
		r.Verdict, r.NeededInputs = VerdictPass, 0
		r.Summary = fmt.Sprintf("There is no evidence that the candidate differs from the baseline by more than the tolerance (%s).", v.counted(r.Inputs))
	case r.NeededInputs > 0:
		r.Verdict = VerdictUndecided
		r.Summary = fmt.Sprintf("Not enough evidence: %s; at least %d would be needed.", v.counted(r.Inputs), r.NeededInputs)
	default:
		r.Verdict = VerdictUndecided
		r.Summary = fmt.Sprintf("Not enough evidence: %s, but a required check was not run.", v.counted(r.Inputs))
	}
}

// counted returns a phrase that states the number of inputs or, if the sets are compared as wholes,
// of runs.
func (v *evaluation) counted(inputs int) string {
	if v.ComparesWholeSets {
		baseline, candidate := v.counts()
		return fmt.Sprintf("%d baseline and %d candidate runs", baseline, candidate)
	}
	return counted(inputs, "matched input")
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

// intervalName returns the name of a check's interval, such as "95% interval".
func (v *evaluation) intervalName() string {
	return strconv.FormatFloat(100*(1-v.SignificanceLevel), 'g', 4, 64) + "% interval"
}

// pointsInterval formats a check's interval in percentage points, enclosed in parentheses. It returns "" if
// there is no interval. sign is -1 if the summary states the opposite of the change, and 1 otherwise.
func (v *evaluation) pointsInterval(c *Check, sign float64) string {
	if c.ConfidenceInterval == nil {
		return ""
	}
	low, high := sign*c.ConfidenceInterval.Low, sign*c.ConfidenceInterval.High
	return fmt.Sprintf(" (%s: %+.1f to %+.1f points)", v.intervalName(), 100*min(low, high), 100*max(low, high))
}

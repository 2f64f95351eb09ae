package gate

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts returns a ComparedRuns with the given number of inputs. For each input, baseline and
// candidate return the outputs of the two sets.
func texts(inputs int, baseline, candidate func(input int) []string) *ComparedRuns {
	d := new(ComparedRuns)
	for i := range inputs {
		one := new(Case)
		var all [][]byte
		for set, outputs := range [][]string{baseline(i), candidate(i)} {
			for _, text := range outputs {
				run := Run{OutputHash: text, Conditions: map[string]string{"model": []string{"m-1", "m-2"}[set], "temperature": "0.7"}}
				if set == 0 {
					one.Baseline = append(one.Baseline, run)
				} else {
					one.Candidate = append(one.Candidate, run)
				}
				all = append(all, []byte(text))
			}
		}
		d.MeasureOutputs(one, all)
		d.Cases = append(d.Cases, one)
	}
	return d
}

// find returns the check with the given name. The test fails if the report does not contain it.
func find(t *testing.T, r *Report, name string) *Check {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	require.Fail(t, "the report lacks the check", name)
	return nil
}

// numbered returns a function that returns a single output: the number of the input, formatted
// according to format.
func numbered(format string) func(int) []string {
	return func(input int) []string { return []string{fmt.Sprintf(format, input)} }
}

func TestFewInputsAreNotEvidence(t *testing.T) {
	for n := range 12 {
		r := RunChecks(texts(n, numbered("answer %d"), numbered("a longer answer %d")), Options{SignificanceLevel: 0.05})
		want := VerdictUndecided
		if n >= 7 { // two two-sided tests, so 2/2^n must be ≤ 5%/2
			want = VerdictFail
		}
		require.Equal(t, want, r.Verdict, "%d inputs: %s", n, r.Summary)
		if want == VerdictUndecided {
			require.Greater(t, r.NeededInputs, n)
			require.Contains(t, r.Summary, "Not enough evidence: ")
			require.Contains(t, r.Summary, fmt.Sprintf("at least %d would be needed", r.NeededInputs))
		}
	}
}

func TestChangedComparesWithTheVariationByChance(t *testing.T) {
	twice := func(a, b string) func(int) []string {
		return func(i int) []string { return []string{fmt.Sprintf(a, i), fmt.Sprintf(b, i)} }
	}
	chance := 0.0
	for _, c := range []struct {
		name                string
		baseline, candidate func(int) []string
		chance              *float64
		want                Outcome
		summary             string
	}{
		{"no repeats", numbered("x %d"), numbered("y %d"), nil, OutcomeNotTested, "Not tested: 100.0% of the outputs differ (20 of 20), but no input has two runs in one set"},
		{"known to be reproducible", numbered("x %d"), numbered("y %d"), &chance, OutcomeFailed, "100.0% of the outputs differ (20 of 20); 0.0% would differ by chance."},
		{"the baseline varies as much", twice("x %d", "y %d"), numbered("z %d"), nil, OutcomePassed, "the outputs differ in 100.0% of the pairs of a baseline run and a candidate run, and in 100.0% of the pairs of runs in the same set: no difference (95% interval: +0.0 to +0.0 points)."},
		{"the baseline is stable", twice("x %d", "x %d"), numbered("z %d"), nil, OutcomeFailed, "the outputs differ in 100.0% of the pairs of a baseline run and a candidate run, and in 0.0% of the pairs of runs in the same set: 100.0 points more"},
		{"repeats take precedence", twice("x %d", "y %d"), numbered("z %d"), &chance, OutcomePassed, ""},
		{"no output changes", twice("x %d", "x %d"), numbered("x %d"), nil, OutcomePassed, "Averaged over the inputs, the outputs differ in 0.0% of the pairs of a baseline run and a candidate run, and in "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := RunChecks(texts(20, c.baseline, c.candidate), Options{SignificanceLevel: 0.05, ChanceDifferenceRate: c.chance, Checks: []string{CheckNameChanged}})
			check := find(t, r, CheckNameChanged)
			require.Equal(t, c.want, check.Outcome, check.Summary)
			require.Contains(t, check.Summary, c.summary)
		})
	}
}

func TestTolerance(t *testing.T) {
	longer := texts(40, numbered("one two three four five six seven eight nine %d"), numbered("one two three four five six seven eight nine ten %d"))
	for _, c := range []struct {
		tolerance float64
		want      Outcome
	}{{0, OutcomeFailed}, {0.05, OutcomeFailed}, {0.1, OutcomePassed}} { // the change is (11+1)/(10+1) - 1, which is about 0.09
		r := RunChecks(longer, Options{SignificanceLevel: 0.05, Checks: []string{CheckNameLength}, Tolerances: map[string]float64{CheckNameLength: c.tolerance}})
		check := find(t, r, CheckNameLength)
		require.Equal(t, c.want, check.Outcome, check.Summary)
		require.InDelta(t, 12.0/11-1, *check.Change, 1e-9)
	}
	shorter := texts(40, numbered("one two three four %d"), numbered("one %d"))
	require.Equal(t, VerdictFail, RunChecks(shorter, Options{SignificanceLevel: 0.05, Checks: []string{CheckNameLength}, Tolerances: map[string]float64{CheckNameLength: 0.3}}).Verdict, "a shorter text is a change too")
}

// The summary of the length check says which statistics it contains. Repeats do not change the
// weight of an input.
func TestLengthIsNamed(t *testing.T) {
	longer := texts(10, numbered("one two three four %d"), numbered("one two three four five six seven %d"))
	require.Equal(t, "On average over the inputs, the candidate's outputs are 50.0% longer (geometric mean of the lengths in words; 95% interval: +50.0% to +50.0%). The median length goes from 5 to 8 words.",
		find(t, RunChecks(longer, Options{SignificanceLevel: 0.05, Checks: []string{CheckNameLength}}), CheckNameLength).Summary)
	longer.ComparesWholeSets = true
	longer.Cases = []*Case{{Baseline: longer.Cases[0].Baseline, Candidate: append(longer.Cases[0].Candidate, longer.Cases[1].Baseline...), measured: true}}
	require.Contains(t, find(t, RunChecks(longer, Options{SignificanceLevel: 0.1, Checks: []string{CheckNameLength}}), CheckNameLength).Summary,
		"On average over the runs of each set, the candidate's outputs are 22.5% longer (geometric mean of the lengths in words; 90% interval: ")
	require.Contains(t, find(t, RunChecks(longer, Options{SignificanceLevel: 0.1, Checks: []string{CheckNameLength}}), CheckNameLength).Summary, "The median length goes from 5 to 6.5 words.")
}

// A decrease in similarity is printed as a negative change, with an interval of the same sign.
func TestSimilarityFalls(t *testing.T) {
	twice := func(i int) []string { return []string{fmt.Sprintf("a b %d", i), fmt.Sprintf("a b %d", i)} }
	check := find(t, RunChecks(texts(20, twice, numbered("x y %d")), Options{SignificanceLevel: 0.05, Checks: []string{CheckNameSimilarity}}), CheckNameSimilarity)
	require.Regexp(t, `are 33\.3% similar, and the outputs of two runs in the same set are 100\.0% similar: 66\.7 points less \(95% interval: -66\.7 to -66\.7 points\)\.$`, check.Summary)
	require.Equal(t, "-66.7 points", check.ChangeCell())
	check.Change = new(0.0)
	require.Equal(t, "+0.0 points", check.ChangeCell())
}

// The report states for how many inputs the sets have different numbers of runs, and which runs were
// left out.
func TestUnevenRuns(t *testing.T) {
	five := func(i int) []string { return []string{"a", "b", "c", "d", "e"} }
	r := RunChecks(texts(8, five, numbered("x %d")), Options{SignificanceLevel: 0.05})
	r.MatchKey = "input"
	require.Equal(t, 8, r.UnevenInputs)
	require.Equal(t, "Baseline: all runs, 40 runs. Candidate: all runs, 8 runs. Both sets have runs of 8 inputs, matched by input; each has several runs in a set. "+
		"The sets have different numbers of runs for 8 inputs; all inputs are weighted equally, regardless of their number of runs.", r.DescribeRuns())
	r = RunChecks(texts(1, numbered("x %d"), numbered("y %d")), Options{SignificanceLevel: 0.05})
	r.MatchKey, r.BaselineOnlyInputs, r.CandidateOnlyInputs, r.SkippedRuns = "run_id", 1, 2, 1
	require.Equal(t, "Baseline: all runs, 1 run. Candidate: all runs, 1 run. Both sets have runs of 1 input, matched by run_id; none has several runs in one set. "+
		"Left out: 1 input with runs only in the baseline. Left out: 2 inputs with runs only in the candidate. Left out: 1 run without a text, or not among the latest 10 runs of an input in a set.", r.DescribeRuns())
	r = &Report{MatchKey: "input", BaselineOnlyInputs: 3}
	require.Equal(t, "Baseline: all runs, no comparable runs. Candidate: all runs, no comparable runs. No input (matched by input) has runs in both sets. "+
		"Left out: 3 inputs with runs only in the baseline.", r.DescribeRuns())
}

func TestWordsAreNamed(t *testing.T) {
	r := RunChecks(texts(30, numbered("Here is it %d"), numbered("Sorry <is> it %d")), Options{SignificanceLevel: 0.05, Checks: []string{CheckNameWords}})
	check := find(t, r, CheckNameWords)
	require.Equal(t, OutcomeFailed, check.Outcome)
	require.Equal(t, []WordChange{{"<", 0, 1}, {">", 0, 1}, {"here", 1, 0}, {"sorry", 0, 1}}, check.Words)
}

func TestMismatches(t *testing.T) {
	d := texts(30, numbered("same %d"), numbered("same %d"))
	d.RecordCounts, d.MismatchCounts = [2]int{30, 31}, [2]int{0, 3} // one record of the candidate is not compared
	for i := range 3 {
		d.Cases[i].Candidate[0].HasMismatch = true
	}
	most := 2
	r := RunChecks(d, Options{SignificanceLevel: 0.05})
	require.Equal(t, VerdictPass, r.Verdict, "three of thirty may be chance")
	r = RunChecks(d, Options{SignificanceLevel: 0.05, MaxMismatches: &most})
	require.Equal(t, VerdictFail, r.Verdict)
	require.Equal(t, "0 of 30 baseline records and 3 of 31 candidate records claim a wrong hash. At most 2 are allowed.", find(t, r, CheckNameMismatches).Summary)
	r = RunChecks(&ComparedRuns{RecordCounts: d.RecordCounts, MismatchCounts: d.MismatchCounts}, Options{SignificanceLevel: 0.05, MaxMismatches: &most})
	require.Equal(t, VerdictFail, r.Verdict, "no input is compared")
	for i := range 10 {
		d.Cases[i].Candidate[0].HasMismatch = true
	}
	require.Equal(t, VerdictFail, RunChecks(d, Options{SignificanceLevel: 0.05}).Verdict)
}

func TestRequiredChecks(t *testing.T) {
	d := texts(30, numbered("same %d"), numbered("same %d"))
	require.Equal(t, VerdictPass, RunChecks(d, Options{SignificanceLevel: 0.05}).Verdict)
	r := RunChecks(d, Options{SignificanceLevel: 0.05, RequiredChecks: []string{CheckNameSimilarity}})
	require.Equal(t, VerdictUndecided, r.Verdict)
	require.Contains(t, r.Summary, "a required check was not run")
	d.NoTextsReason = "the reason"
	require.Contains(t, find(t, RunChecks(d, Options{SignificanceLevel: 0.05}), CheckNameLength).Summary, "the reason")
}

func TestReports(t *testing.T) {
	r := RunChecks(texts(30, numbered("a|`b` %d"), numbered("c <script> \x1b[31m %d")), Options{SignificanceLevel: 0.05})
	r.BaselineConditions, r.CandidateConditions, r.MatchKey = []string{"label:build=main"}, []string{"label:build=<b>&\x01"}, "input"
	require.Equal(t, []VariableDifference{{"model", []string{"m-1"}, []string{"m-2"}}}, r.Differences)

	var markdown bytes.Buffer
	require.NoError(t, r.WriteMarkdown(&markdown))
	require.Contains(t, markdown.String(), "## Drift gate: the outputs changed\n")
	require.Contains(t, markdown.String(), "| words | **failed** | 100.0 points | 0.0% | < 0.001 |")
	require.Contains(t, markdown.String(), "The sets differ in model (m-1 → m-2).")
	for line := range strings.Lines(markdown.String()) {
		require.NotContains(t, line, "<script>")
		require.NotContains(t, line, "\x1b")
		if strings.HasPrefix(line, "| changed") {
			require.Equal(t, 7, strings.Count(line, "|"), line)
		}
	}

	var junit bytes.Buffer
	require.NoError(t, r.WriteJUnit(&junit, false))
	var suites junitSuites
	require.NoError(t, xml.Unmarshal(junit.Bytes(), &suites), junit.String())
	require.Equal(t, 6, suites.Tests)
	require.Equal(t, 2, suites.Failures) // the checks "length" and "words"
	require.Equal(t, 2, suites.Skipped)  // the checks "changed" and "similarity"
	require.Contains(t, suites.Suite.Cases[4].Failure.Message, "The word whose share of outputs changed most is ")

	r = RunChecks(texts(3, numbered("a %d"), numbered("b %d")), Options{SignificanceLevel: 0.05})
	for _, allow := range []bool{false, true} {
		junit.Reset()
		require.NoError(t, r.WriteJUnit(&junit, allow))
		suites = junitSuites{}
		require.NoError(t, xml.Unmarshal(junit.Bytes(), &suites))
		require.Equal(t, !allow, suites.Errors == 1)
	}
}

package gate

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Heading returns the verdict in a few words.
func (r *Report) Heading() string {
	verdicts := map[Verdict]string{VerdictPass: "No change found", VerdictFail: "The outputs changed", VerdictUndecided: "Not enough evidence"}
	return verdicts[r.Verdict]
}

// DescribeRuns describes in sentences which runs were compared.
func (r *Report) DescribeRuns() string {
	text := fmt.Sprintf("Baseline: %s, %s. Candidate: %s, %s.", conditionsOr(r.BaselineConditions), comparedRuns(r.BaselineRuns), conditionsOr(r.CandidateConditions), comparedRuns(r.CandidateRuns))
	switch {
	case r.MatchKey == "":
		text += " The sets were compared as wholes, because their inputs were not matched."
	case r.Inputs == 0:
		text += fmt.Sprintf(" No input (matched by %s) has runs in both sets.", r.MatchKey)
	default:
		text += fmt.Sprintf(" Both sets have runs of %s, matched by %s; %s.", counted(r.Inputs, "input"), r.MatchKey, r.describeRepeats())
	}
	if r.UnevenInputs > 0 {
		text += fmt.Sprintf(" The sets have different numbers of runs for %s; all inputs are weighted equally, regardless of their number of runs.", counted(r.UnevenInputs, "input"))
	}
	if r.BaselineOnlyInputs > 0 {
		text += fmt.Sprintf(" Left out: %s with runs only in the baseline.", counted(r.BaselineOnlyInputs, "input"))
	}
	if r.CandidateOnlyInputs > 0 {
		text += fmt.Sprintf(" Left out: %s with runs only in the candidate.", counted(r.CandidateOnlyInputs, "input"))
	}
	if r.SkippedRuns > 0 {
		text += fmt.Sprintf(" Left out: %s without a text, or not among the latest %d runs of an input in a set.", counted(r.SkippedRuns, "run"), MaxRunsPerInput)
	}
	return text
}

// describeRepeats says how many inputs have several runs in a set.
func (r *Report) describeRepeats() string {
	switch r.RepeatedInputs {
	case 0:
		return "none has several runs in one set"
	case r.Inputs:
		return "each has several runs in a set"
	case 1:
		return "1 of them has several runs in a set"
	}
	return fmt.Sprintf("%d of them have several runs in a set", r.RepeatedInputs)
}

// comparedRuns says how many runs of a set are compared. A set can have runs of which none is compared.
func comparedRuns(n int) string {
	if n == 0 {
		return "no comparable runs"
	}
	return counted(n, "run")
}

// counted returns n followed by noun, with a plural s unless n is 1.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func conditionsOr(conditions []string) string {
	if len(conditions) == 0 {
		return "all runs"
	}
	return strings.Join(conditions, ", ")
}

// DescribeDifferences describes in sentences which variables differ between the sets. It returns "" if none differ.
func (r *Report) DescribeDifferences() string {
	if len(r.Differences) == 0 {
		return ""
	}
	var list []string
	for _, v := range r.Differences {
		list = append(list, fmt.Sprintf("%s (%s → %s)", v.Name, valuesOr(v.Baseline), valuesOr(v.Candidate)))
	}
	text := "The sets differ in " + strings.Join(list, ", ") + "."
	if len(list) > 1 {
		text += " The gate cannot tell which of these variables changed the outputs; drift effects compares runs that differ in only one of them."
	}
	return text
}

func valuesOr(values []string) string {
	if len(values) == 0 {
		return "none"
	}
	return strings.Join(values, ", ")
}

// DescribeMethod returns a sentence that states the probability of a false alarm.
func (r *Report) DescribeMethod() string {
	return fmt.Sprintf("If nothing changed, the probability that this gate fails is at most %s.", percent(r.SignificanceLevel))
}

// WriteMarkdown writes the report in Markdown, for use in a pull request.
func (r *Report) WriteMarkdown(to io.Writer) error {
	var w strings.Builder
	fmt.Fprintf(&w, "## Drift gate: %s\n\n%s\n\n", strings.ToLower(r.Heading()), escape(r.Summary))
	w.WriteString("| check | outcome | change | tolerated | p-value | |\n| --- | --- | ---: | ---: | ---: | --- |\n")
	marks := map[Outcome]string{OutcomePassed: "passed", OutcomeFailed: "**failed**", OutcomeNotTested: "not tested"}
	for i := range r.Checks {
		c := &r.Checks[i]
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s | %s |\n", c.Name, marks[c.Outcome], c.ChangeCell(), percent(c.Tolerance), c.PValueCell(), escape(c.Summary))
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		if len(c.Words) == 0 {
			continue
		}
		w.WriteString("\n| word | baseline | candidate |\n| --- | ---: | ---: |\n")
		for _, word := range c.Words {
			fmt.Fprintf(&w, "| %s | %s | %s |\n", escape(fmt.Sprintf("%q", word.Word)), percent(word.Baseline), percent(word.Candidate))
		}
	}
	fmt.Fprintf(&w, "\n%s\n", escape(r.DescribeRuns()))
	if text := r.DescribeDifferences(); text != "" {
		fmt.Fprintf(&w, "\n%s\n", escape(text))
	}
	fmt.Fprintf(&w, "\n%s\n", r.DescribeMethod())
	_, err := io.WriteString(to, w.String())
	return err
}

// ChangeCell formats the change for a table cell. The change in length is a percentage. All other changes are
// differences between shares, and are in percentage points. The change in words has no sign, because some words
// can become more frequent and others less.
func (c *Check) ChangeCell() string {
	switch {
	case c.Change == nil:
		return "–"
	case c.Name == CheckNameLength:
		return fmt.Sprintf("%+.1f%%", 100**c.Change)
	case c.Name == CheckNameWords:
		return fmt.Sprintf("%.1f points", 100**c.Change)
	case c.Name == CheckNameSimilarity:
		return fmt.Sprintf("%+.1f points", 0-100**c.Change) // subtracting from 0 avoids a negative zero
	}
	return fmt.Sprintf("%+.1f points", 100**c.Change)
}

// PValueCell formats the adjusted p-value for a table cell.
func (c *Check) PValueCell() string {
	switch {
	case c.AdjustedPValue == nil:
		return "–"
	case *c.AdjustedPValue < 0.001:
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", *c.AdjustedPValue)
}

// escape escapes text from the ledger, so that Markdown shows it on one line and without markup.
func escape(text string) string {
	var w strings.Builder
	for _, r := range text {
		switch {
		case r < ' ' || r == 0x7f:
			w.WriteByte(' ')
		case strings.ContainsRune("\\`*_{}[]<>#|~&@!", r):
			fmt.Fprintf(&w, "&#%d;", r) // entities are never parsed as markup
		default:
			w.WriteRune(r)
		}
	}
	return w.String()
}

// junitSuites is the root of JUnit XML, in the form that Jenkins, GitLab, and the common GitHub actions
// read.
type junitSuites struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Suite    junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
	Output   string      `xml:"system-out"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes the report as JUnit XML, with a test case for each check, and one, named
// evidence, that says whether there are enough runs. If the gate is undecided, the latter is an
// error or, if allowUndecided is set, skipped.
func (r *Report) WriteJUnit(to io.Writer, allowUndecided bool) error {
	const class = "colophon.drift.gate"
	s := junitSuite{Name: fmt.Sprintf("drift gate: %s → %s", conditionsOr(r.BaselineConditions), conditionsOr(r.CandidateConditions)),
		Output: strings.Join([]string{r.Summary, r.DescribeRuns(), r.DescribeDifferences(), r.DescribeMethod()}, "\n")}
	first := junitCase{Class: class, Name: "evidence"}
	switch {
	case r.Verdict != VerdictUndecided:
	case allowUndecided:
		first.Skipped = &junitMessage{r.Summary}
	default:
		first.Error = &junitMessage{r.Summary}
	}
	s.Cases = append(s.Cases, first)
	for i := range r.Checks {
		c := &r.Checks[i]
		one := junitCase{Class: class, Name: c.Name}
		switch c.Outcome {
		case OutcomeFailed:
			one.Failure = &junitMessage{c.Summary}
		case OutcomeNotTested:
			one.Skipped = &junitMessage{c.Summary}
		case OutcomePassed:
		}
		s.Cases = append(s.Cases, one)
	}
	s.Tests = len(s.Cases)
	for _, one := range s.Cases {
		switch {
		case one.Failure != nil:
			s.Failures++
		case one.Error != nil:
			s.Errors++
		case one.Skipped != nil:
			s.Skipped++
		}
	}
	text, err := xml.MarshalIndent(junitSuites{Tests: s.Tests, Failures: s.Failures, Errors: s.Errors, Skipped: s.Skipped, Suite: s}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s%s\n", xml.Header, text)
	return err
}

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

// DescribeRuns returns a sentence about what was compared.
func (r *Report) DescribeRuns() string {
	text := fmt.Sprintf("Baseline: %s (%d runs compared). Candidate: %s (%d runs compared).", conditionsOr(r.Baseline), r.BaselineRuns, conditionsOr(r.Candidate), r.CandidateRuns)
	switch {
	case r.Matched == "":
		text += " The inputs of the sets were not matched."
	default:
		text += fmt.Sprintf(" %d inputs are in both sets, matched by %s; %d of them with repeats.", r.Inputs, r.Matched, r.Repeated)
	}
	if r.BaselineOnly+r.CandidateOnly > 0 {
		text += fmt.Sprintf(" Not compared: %d inputs of the baseline and %d of the candidate that the other set does not have.", r.BaselineOnly, r.CandidateOnly)
	}
	if r.Skipped > 0 {
		text += fmt.Sprintf(" Not compared: %d runs, which have no text or are not among the latest %d runs of their input.", r.Skipped, MaxRepeats)
	}
	return text
}

func conditionsOr(conditions []string) string {
	if len(conditions) == 0 {
		return "all runs"
	}
	return strings.Join(conditions, ", ")
}

// DescribeDifferences returns a sentence about the variables that differ between the sets, or "" if none differ.
func (r *Report) DescribeDifferences() string {
	if len(r.Differ) == 0 {
		return ""
	}
	var list []string
	for _, v := range r.Differ {
		list = append(list, fmt.Sprintf("%s (%s → %s)", v.Name, valuesOr(v.Baseline), valuesOr(v.Candidate)))
	}
	return "The sets differ in " + strings.Join(list, ", ") + "."
}

func valuesOr(values []string) string {
	if len(values) == 0 {
		return "none"
	}
	return strings.Join(values, ", ")
}

// DescribeMethod returns a sentence that states the probability of a false alarm.
func (r *Report) DescribeMethod() string {
	return fmt.Sprintf("If nothing changed, this gate fails with a probability of at most %s.", percent(r.Level))
}

// WriteMarkdown writes the report for a pull request.
func (r *Report) WriteMarkdown(to io.Writer) error {
	var w strings.Builder
	fmt.Fprintf(&w, "## Drift gate: %s\n\n%s\n\n", strings.ToLower(r.Heading()), escape(r.Summary))
	w.WriteString("| check | outcome | change | tolerated | p | |\n| --- | --- | ---: | ---: | ---: | --- |\n")
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

// ChangeCell formats the change for a table.
func (c *Check) ChangeCell() string {
	if c.Change == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1f%%", 100**c.Change)
}

// PValueCell formats the adjusted p-value for a table.
func (c *Check) PValueCell() string {
	switch {
	case c.AdjustedP == nil:
		return "–"
	case *c.AdjustedP < 0.001:
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", *c.AdjustedP)
}

// escape escapes a text from the ledger, so that Markdown shows it as one line without markup.
func escape(text string) string {
	var w strings.Builder
	for _, r := range text {
		switch {
		case r < ' ' || r == 0x7f:
			w.WriteByte(' ')
		case strings.ContainsRune("\\`*_{}[]<>#|~&@!", r):
			fmt.Fprintf(&w, "&#%d;", r) // an entity is never markup
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

// WriteJUnit writes the report with one test case for each check, and one for the evidence. The latter is an
// error if the gate is undecided, or skipped if allowUndecided is set.
func (r *Report) WriteJUnit(to io.Writer, allowUndecided bool) error {
	const class = "colophon.drift.gate"
	s := junitSuite{Name: fmt.Sprintf("drift gate: %s → %s", conditionsOr(r.Baseline), conditionsOr(r.Candidate)),
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

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"colophon/internal/cli"
)

// Verdict is the result of a check.
type Verdict string

// The possible verdicts.
const (
	VerdictOK         Verdict = "ok"          // nothing needs to be changed
	VerdictAdvice     Verdict = "advice"      // the deployment works, but could be better
	VerdictWrong      Verdict = "wrong"       // the deployment does not work, or is not safe
	VerdictNotChecked Verdict = "not checked" // the check could not be performed
)

// Finding is one result of a check.
type Finding struct {
	Check   string  `json:"check"` // the name of the check
	Verdict Verdict `json:"verdict"`
	Message string  `json:"found"`        // what the check found, as a sentence
	Advice  string  `json:"do,omitempty"` // advice; empty if nothing needs to be done
}

// finding returns a list that consists of a single finding. do is the advice and may be empty.
func finding(verdict Verdict, do, format string, args ...any) []Finding {
	return []Finding{{Verdict: verdict, Message: fmt.Sprintf(format, args...), Advice: do}}
}

// orOK returns list or, if list is empty, a single OK finding with the formatted text.
func orOK(list []Finding, format string, args ...any) []Finding {
	if len(list) > 0 {
		return list
	}
	return finding(VerdictOK, "", format, args...)
}

// Report holds all findings about a deployment.
type Report struct {
	// Verdict is the worst verdict of any finding, ignoring VerdictNotChecked.
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"checks"`
}

func newReport(list []Finding) Report {
	r := Report{Verdict: VerdictOK, Findings: list}
	for _, f := range list {
		if f.Verdict == VerdictWrong || f.Verdict == VerdictAdvice && r.Verdict == VerdictOK {
			r.Verdict = f.Verdict
		}
	}
	return r
}

// AllChecked reports whether every check could be performed.
func (r Report) AllChecked() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Verdict == VerdictNotChecked })
}

// FormatTable returns a table of all findings, followed by a line with the number of findings for
// each verdict. Lines are wrapped at width characters, or not at all if width is 0.
func (r Report) FormatTable(width int) string {
	names, counts := 0, make(map[Verdict]int)
	for _, f := range r.Findings {
		names = max(names, utf8.RuneCountInString(f.Check))
		counts[f.Verdict]++
	}
	var text strings.Builder
	indent := names + len(VerdictNotChecked) + 4
	for _, f := range r.Findings {
		fmt.Fprintf(&text, "%-*s  %-*s  %s\n", len(VerdictNotChecked), f.Verdict, names, f.Check, fold(cli.QuoteCell(f.Message), width, indent))
		if f.Advice != "" {
			fmt.Fprintf(&text, "%*s→ %s\n", indent, "", fold(cli.QuoteCell(f.Advice), width, indent+2))
		}
	}
	fmt.Fprintf(&text, "\n%d wrong, %d advice, %d ok, %d not checked\n", counts[VerdictWrong], counts[VerdictAdvice], counts[VerdictOK], counts[VerdictNotChecked])
	return text.String()
}

// minColumn is the minimum width of wrapped text, in characters, even if the terminal is
// narrower.
const minColumn = 30

// fold wraps a text at spaces so that no line is longer than width, unless a single word is. It
// indents all lines except the first.
func fold(text string, width, indent int) string {
	if width == 0 {
		return text
	}
	room := max(width-indent, minColumn)
	var folded strings.Builder
	used := 0
	for word := range strings.SplitSeq(text, " ") {
		length := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+length > room:
			folded.WriteString("\n" + strings.Repeat(" ", indent))
			used = 0
		default:
			folded.WriteByte(' ')
			used++
		}
		folded.WriteString(word)
		used += length
	}
	return folded.String()
}

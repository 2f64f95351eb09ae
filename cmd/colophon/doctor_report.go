package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"colophon/internal/cli"
)

// grade is how a check comes out.
type grade string

// The grades.
const (
	fine      grade = "ok"
	advice    grade = "advice"      // it works; something could be better
	wrong     grade = "wrong"       // it does not work, or is not safe
	unchecked grade = "not checked" // it cannot be seen from here
)

// diagnosis is one finding: what was found and what to do, a sentence each.
type diagnosis struct {
	Check   string `json:"check"`
	Verdict grade  `json:"verdict"`
	Found   string `json:"found"`
	Do      string `json:"do,omitempty"` // empty: nothing
}

// doctorCheck looks at one thing. It has at least one finding.
type doctorCheck struct {
	name string
	run  func(*doctor) []diagnosis
}

// found is a single finding. do may be empty.
func found(verdict grade, do, format string, args ...any) []diagnosis {
	return []diagnosis{{Verdict: verdict, Found: fmt.Sprintf(format, args...), Do: do}}
}

// orFine is what was found, or that all is well.
func orFine(list []diagnosis, format string, args ...any) []diagnosis {
	if len(list) > 0 {
		return list
	}
	return found(fine, "", format, args...)
}

// doctorReport is all that was found. Its verdict is wrong, advice or ok: the worst
// that there is. What was not checked is no verdict.
type doctorReport struct {
	Verdict grade       `json:"verdict"`
	Checks  []diagnosis `json:"checks"`
}

func newDoctorReport(list []diagnosis) doctorReport {
	r := doctorReport{Verdict: fine, Checks: list}
	for _, d := range list {
		if d.Verdict == wrong || d.Verdict == advice && r.Verdict == fine {
			r.Verdict = d.Verdict
		}
	}
	return r
}

// outcome is how the command ends: nil unless something is wrong or, if strict, was
// not checked.
func (r doctorReport) outcome(strict bool) error {
	switch missed := slices.ContainsFunc(r.Checks, func(d diagnosis) bool { return d.Verdict == unchecked }); {
	case r.Verdict == wrong:
		return &cli.ExitError{Code: cli.ExitFailed}
	case strict && missed:
		return cli.Exitf(cli.ExitUnchecked, "not everything could be checked (--strict)")
	}
	return nil
}

func (r doctorReport) print(c *cli.Console, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(c, r)
	}
	if _, err := fmt.Fprint(c.Out, r.text(terminalWidth(c.Out))); err != nil {
		return err
	}
	return nil
}

// text is a table of all findings, and their number. Lines are broken at a width in
// characters; 0 means never.
func (r doctorReport) text(width int) string {
	names, counts := 0, make(map[grade]int)
	for _, d := range r.Checks {
		names = max(names, utf8.RuneCountInString(d.Check))
		counts[d.Verdict]++
	}
	var text strings.Builder
	indent := names + len(unchecked) + 4
	for _, d := range r.Checks {
		fmt.Fprintf(&text, "%-*s  %-*s  %s\n", len(unchecked), d.Verdict, names, d.Check, fold(cli.Plain(d.Found), width, indent))
		if d.Do != "" {
			fmt.Fprintf(&text, "%*s→ %s\n", indent, "", fold(cli.Plain(d.Do), width, indent+2))
		}
	}
	fmt.Fprintf(&text, "\n%d wrong, %d advice, %d ok, %d not checked\n", counts[wrong], counts[advice], counts[fine], counts[unchecked])
	return text.String()
}

// leastColumn is how many characters a folded text has a line at least, however
// narrow the terminal is.
const leastColumn = 30

// fold breaks a text at spaces so that lines, of which all but the first are
// indented, end before the width.
func fold(text string, width, indent int) string {
	if width == 0 {
		return text
	}
	room := max(width-indent, leastColumn)
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

// terminalWidth is the width of the terminal that something is printed on; 0 where it
// is none.
func terminalWidth(out io.Writer) int {
	file, ok := cli.Unfiltered(out).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"colophon/internal/cli"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// answer is what the server says of one line.
type answer struct {
	problem    *problem // nil for a receipt
	replayed   bool     // the ledger had the record
	mismatched []string // the fields whose check failed
	// Of a receipt, the server's word.
	seq, ledger, kind string
}

// answerReader reads answers one after the other.
type answerReader struct {
	document pyjson.Document
}

// read tells a receipt, which has a seq, from a problem, which has a status.
func (r *answerReader) read(line []byte) (answer, error) {
	if err := r.document.Parse(line); err != nil {
		return answer{}, err
	}
	root := r.document.Root()
	switch {
	case root.Member("seq").Given():
		a := answer{replayed: root.Member("replayed").Kind() == pyjson.True, seq: string(root.Member("seq").Raw()),
			ledger: string(root.Member("ledger").Text()), kind: string(root.Member("kind").Text())}
		for field, check := range root.Member("checks").Members() {
			if string(check.Member("result").Text()) == string(record.Mismatch) {
				a.mismatched = append(a.mismatched, string(field.Text()))
			}
		}
		return a, nil
	case root.Member("status").Given():
		return answer{problem: lineProblem(root)}, nil
	}
	return answer{}, fmt.Errorf("the answer is neither receipt nor problem: %.100q", line)
}

func lineProblem(root pyjson.Value) *problem {
	status, _ := root.Member("status").Float()
	p := &problem{
		Status: int(status),
		Title:  string(root.Member("title").Text()),
		Detail: string(root.Member("detail").Text()),
	}
	for e := range root.Member("errors").Elements() {
		p.Errors = append(p.Errors, place{string(e.Member("pointer").Text()), string(e.Member("detail").Text()) + hashesOf(e)})
	}
	return p
}

// hashesOf are the two hashes of an error that is about a claim, with a colon; empty of
// others. A stage may have been claimed that the ledger does not build.
func hashesOf(e pyjson.Value) string {
	claimed, computed := e.Member("claimed"), e.Member("computed")
	switch {
	case !claimed.Given():
		return ""
	case !computed.Given():
		return fmt.Sprintf(": claimed %s, computed none", claimed.Text())
	}
	return fmt.Sprintf(": claimed %s, computed %s", claimed.Text(), computed.Text())
}

// counts is how many lines came out how.
type counts struct {
	accepted, replayed, mismatched, refused int
}

func (c *counts) add(d counts) {
	c.accepted += d.accepted
	c.replayed += d.replayed
	c.mismatched += d.mismatched
	c.refused += d.refused
}

// maxFailures is how many failed lines, and how many mismatched ones, are
// described.
const maxFailures = 10

// tally counts lines by kind and remembers the first failures.
type tally struct {
	mu       sync.Mutex // guards what follows
	kinds    map[string]*counts
	answers  int
	failures []string // at most maxFailures, in the order in which they came
	notes    []string // mismatched lines; at most maxFailures
}

func newTally() *tally { return &tally{kinds: make(map[string]*counts)} }

// unknownKind stands for lines whose kind nobody knows.
const unknownKind = "(unknown)"

// of is the row of a kind. Kinds that the ledger does not know share one, so
// that a strange file does not make a long table. The caller holds t.mu.
func (t *tally) of(kind string) *counts {
	if !slices.Contains(record.Kinds[:], record.Kind(kind)) {
		kind = unknownKind
	}
	c := t.kinds[kind]
	if c == nil {
		c = new(counts)
		t.kinds[kind] = c
	}
	return c
}

// count takes the server's answer to a line.
func (t *tally) count(line importLine, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers++
	c := t.of(line.kind)
	switch {
	case a.problem != nil:
		c.refused++
		t.fail(line, a.problem)
	case a.replayed:
		c.replayed++
	default:
		c.accepted++
		if len(a.mismatched) > 0 {
			c.mismatched++
			if len(t.notes) < maxFailures {
				t.notes = append(t.notes, fmt.Sprintf("%s: taken as event %s, but these claims do not hold: %s",
					line.place(), a.seq, strings.Join(a.mismatched, ", ")))
			}
		}
	}
}

// unreadable takes a line that could not be sent.
func (t *tally) unreadable(line importLine, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(line.kind).refused++
	t.fail(line, err)
}

// fail notes a failure. The caller holds t.mu.
func (t *tally) fail(line importLine, err error) {
	if len(t.failures) < maxFailures {
		t.failures = append(t.failures, line.place()+": "+err.Error())
	}
}

// answered is the number of lines that the server answered.
func (t *tally) answered() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers
}

// failed reports whether any line failed.
func (t *tally) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures) > 0
}

// print writes the table to the output and the first failures as errors.
func (t *tally) print(c *cli.Console) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	const row = "%-17s %10d %10d %10d %10d\n"
	var total counts
	var table strings.Builder
	fmt.Fprintf(&table, "%-17s %10s %10s %10s %10s\n", "kind", "accepted", "replayed", "mismatched", "refused")
	for _, kind := range append(kindNames(), unknownKind) {
		if c := t.kinds[kind]; c != nil {
			fmt.Fprintf(&table, row, kind, c.accepted, c.replayed, c.mismatched, c.refused)
			total.add(*c)
		}
	}
	fmt.Fprintf(&table, row, "total", total.accepted, total.replayed, total.mismatched, total.refused)
	if _, err := io.WriteString(c.Out, table.String()); err != nil {
		return err
	}
	for _, note := range t.notes {
		c.Say("%s", note)
	}
	if more := total.mismatched - len(t.notes); more > 0 {
		c.Say("and %d more lines with claims that do not hold", more)
	}
	for _, failure := range t.failures {
		c.Say("%s", failure)
	}
	if more := total.refused - len(t.failures); more > 0 {
		c.Say("and %d more lines failed", more)
	}
	return nil
}

func kindNames() []string {
	names := make([]string, len(record.Kinds))
	for i, kind := range record.Kinds {
		names[i] = string(kind)
	}
	return names
}

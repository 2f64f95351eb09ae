package importer

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// answer is what a receipt says of a line.
type answer struct {
	replayed   bool     // the ledger had the record
	mismatched []string // the fields whose check failed
	// The server's word.
	seq, ledger, kind string
}

// answerReader reads receipts one after the other.
type answerReader struct {
	document pyjson.Document
}

func (r *answerReader) read(receipt []byte) (answer, error) {
	if err := r.document.Parse(receipt); err != nil {
		return answer{}, err
	}
	root := r.document.Root()
	if !root.Member("seq").Given() {
		return answer{}, fmt.Errorf("it is no receipt: %.100q", receipt)
	}
	a := answer{replayed: root.Member("replayed").Kind() == pyjson.True, seq: string(root.Member("seq").Raw()),
		ledger: string(root.Member("ledger").Text()), kind: string(root.Member("kind").Text())}
	for field, check := range root.Member("checks").Members() {
		if string(check.Member("result").Text()) == string(record.Mismatch) {
			a.mismatched = append(a.mismatched, string(field.Text()))
		}
	}
	return a, nil
}

// Counts is how many lines came out how.
type Counts struct {
	Accepted, Replayed, Mismatched, Refused int
}

func (c *Counts) add(d Counts) {
	c.Accepted += d.Accepted
	c.Replayed += d.Replayed
	c.Mismatched += d.Mismatched
	c.Refused += d.Refused
}

// Tally is what became of the lines of an import.
type Tally struct {
	// Kinds has the kinds that have occurred, in the order of the specification, and UnknownKind last.
	Kinds []KindCounts
	// Notes describe the first lines that were accepted with claims that do not hold, Failures the first that were
	// refused or could not be read. Each has ten at most.
	Notes, Failures []string
}

// KindCounts counts the lines of a kind.
type KindCounts struct {
	Kind string
	Counts
}

// Total adds up all kinds.
func (t *Tally) Total() (total Counts) {
	for _, c := range t.Kinds {
		total.add(c.Counts)
	}
	return total
}

// UnknownKind stands for lines whose kind the ledger does not know.
const UnknownKind = "(unknown)"

const maxDescribed = 10

// counter makes a tally. It is safe for concurrent use.
type counter struct {
	mu       sync.Mutex // guards what follows
	kinds    map[string]*Counts
	failures []string // in the order in which they came
	notes    []string
}

func newCounter() *counter { return &counter{kinds: make(map[string]*Counts)} }

// tally returns what was counted until now.
func (t *counter) tally() *Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := &Tally{Notes: slices.Clone(t.notes), Failures: slices.Clone(t.failures)}
	for _, kind := range append(kindNames(), UnknownKind) {
		if c := t.kinds[kind]; c != nil {
			done.Kinds = append(done.Kinds, KindCounts{kind, *c})
		}
	}
	return done
}

// of is the row of a kind. Kinds that the ledger does not know share one, so
// that a strange file does not make a long table. The caller holds t.mu.
func (t *counter) of(kind string) *Counts {
	if !slices.Contains(record.Kinds[:], record.Kind(kind)) {
		kind = UnknownKind
	}
	c := t.kinds[kind]
	if c == nil {
		c = new(Counts)
		t.kinds[kind] = c
	}
	return c
}

// accept counts a line that has a receipt.
func (t *counter) accept(l *line, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(l.kind)
	if a.replayed {
		c.Replayed++
		return
	}
	c.Accepted++
	if len(a.mismatched) == 0 {
		return
	}
	c.Mismatched++
	if len(t.notes) < maxDescribed {
		t.notes = append(t.notes, fmt.Sprintf("%s: taken as event %s, but these claims do not hold: %s",
			l.place(), a.seq, strings.Join(a.mismatched, ", ")))
	}
}

// refuse counts a line that the server has refused, or that could not be read.
func (t *counter) refuse(l *line, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(l.kind).Refused++
	if len(t.failures) < maxDescribed {
		t.failures = append(t.failures, l.place()+": "+err.Error())
	}
}

func kindNames() []string {
	names := make([]string, len(record.Kinds))
	for i, kind := range record.Kinds {
		names[i] = string(kind)
	}
	return names
}

package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"colophon/ledger/record"
	"colophon/ledger/record/formats"
	"colophon/ledger/record/pyjson"
)

// answer holds the fields of a receipt that the importer uses.
type answer struct {
	replayed   bool     // the ledger already had the record
	mismatched []string // the fields whose check failed
	incomplete []string // the parts that are missing from an IPC record
	// The following values are only claims by the server; the import does not verify a proof of
	// them.
	seq, ledger, kind string
	fingerprint       string // content_fingerprint of a path; empty if unknown
}

// answerReader parses receipts one after another.
type answerReader struct {
	document pyjson.Document
}

func (r *answerReader) read(receipt []byte) (answer, error) {
	if err := r.document.Parse(receipt); err != nil {
		return answer{}, err
	}
	root := r.document.Root()
	if !root.Member("seq").IsGiven() {
		return answer{}, fmt.Errorf("the server's response is not a receipt: %.100q", receipt)
	}
	a := answer{replayed: root.Member("replayed").Kind() == pyjson.True, seq: string(root.Member("seq").Raw()),
		ledger: string(root.Member("ledger").Text()), kind: string(root.Member("kind").Text()),
		fingerprint: string(root.Member("hashes").Member("content_fingerprint").Text())}
	for field, check := range root.Member("checks").Members() {
		if string(check.Member("result").Text()) == string(record.ResultMismatch) {
			a.mismatched = append(a.mismatched, string(field.Text()))
		}
	}
	for part := range root.Member("incomplete").Elements() {
		a.incomplete = append(a.incomplete, string(part.Text()))
	}
	return a, nil
}

// Counts holds the number of lines for each outcome.
type Counts struct {
	// Accepted includes Mismatched and Incomplete, the lines whose records have wrong claims or lack parts.
	// Replayed counts the lines whose records the ledger already had. Refused includes unreadable lines.
	Accepted, Replayed, Mismatched, Incomplete, Refused int
}

func (c *Counts) add(d Counts) {
	c.Accepted += d.Accepted
	c.Replayed += d.Replayed
	c.Mismatched += d.Mismatched
	c.Incomplete += d.Incomplete
	c.Refused += d.Refused
}

// Tally holds the outcomes of the lines of an import.
type Tally struct {
	// CountsByKind holds the counts of the kinds that occurred, in the order of the specification, with
	// UnknownKind last.
	CountsByKind []KindCounts
	// MissingPartCounts maps each part of an IPC record to the number of accepted records that lack
	// it.
	MissingPartCounts map[string]int
	// MismatchNotes describes the first accepted lines with wrong claims, and Failures the first
	// lines that were refused or could not be read. Each list has at most ten entries.
	MismatchNotes, Failures []string
	// Warnings contains messages about whole files. It has at most ten entries.
	Warnings []string
	// LeftOutMemberNotes describes the first members that did not fit into any part of a record,
	// and says why. It has at most ten entries. LeftOutMemberCount is the total number of such
	// members. Members that are null are not counted.
	LeftOutMemberNotes []string
	LeftOutMemberCount int // number of members that did not fit into a record
	// ReportErr is the first error from writing the report. The import continues after it.
	ReportErr error
	// MemberCounts counts what happened to the members of native values, ordered by pattern.
	MemberCounts []MemberCount
}

// MemberCount is the number of members that have the same Pattern, Outcome, and Detail.
type MemberCount struct {
	Pattern string          // JSON pointer to the members, with * in place of indexes and of the names of entries
	Outcome formats.Outcome // what happened to the members
	Detail  string          // where the members are in the records, or why they were left out
	Count   int             // number of members
}

// KindCounts holds the counts of one kind.
type KindCounts struct {
	Kind string // kind of the records, or UnknownKind
	Counts
}

// Total returns the sum of the counts of all kinds.
func (t *Tally) Total() (total Counts) {
	for _, c := range t.CountsByKind {
		total.add(c.Counts)
	}
	return total
}

// UnknownKind stands for all kinds that the ledger does not know.
const UnknownKind = "(unknown)"

const maxDescribed = 10

// counter counts outcomes. It is safe for concurrent use.
type counter struct {
	mu           sync.Mutex // guards the fields below
	kinds        map[string]*Counts
	lacking      map[string]int
	failures     []string // in the order of the server's responses
	notes        []string
	warnings     []string
	leftOutNotes []string
	leftOutCount int
	memberCounts map[MemberCount]int // number of members, keyed by a MemberCount whose Count is 0
	reportErr    error               // the first error from writing the report
}

func newCounter() *counter {
	return &counter{kinds: make(map[string]*Counts), lacking: make(map[string]int), memberCounts: make(map[MemberCount]int)}
}

// tally returns the counts so far.
func (t *counter) tally() *Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := &Tally{MissingPartCounts: maps.Clone(t.lacking), MismatchNotes: slices.Clone(t.notes), Failures: slices.Clone(t.failures),
		LeftOutMemberNotes: slices.Clone(t.leftOutNotes), LeftOutMemberCount: t.leftOutCount, Warnings: slices.Clone(t.warnings), ReportErr: t.reportErr}
	for _, kind := range append(kindNames(), UnknownKind) {
		if c := t.kinds[kind]; c != nil {
			done.CountsByKind = append(done.CountsByKind, KindCounts{kind, *c})
		}
	}
	for m, count := range t.memberCounts {
		m.Count = count
		done.MemberCounts = append(done.MemberCounts, m)
	}
	slices.SortFunc(done.MemberCounts, func(a, b MemberCount) int {
		return cmp.Or(strings.Compare(a.Pattern, b.Pattern), strings.Compare(string(a.Outcome), string(b.Outcome)), strings.Compare(a.Detail, b.Detail))
	})
	return done
}

// maxPatterns is the maximum number of patterns in Tally.MemberCounts. Once it is reached, members with
// new patterns are counted together.
const maxPatterns = 1000

// members counts what happened to the members of an entry, and notes the members that were left
// out. If the entry has no record, it notes none of them, because the missing record is reported
// instead.
func (t *counter) members(l *line, members []formats.MemberOutcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range members {
		row := MemberCount{Pattern: m.Pattern, Outcome: m.Outcome, Detail: m.Detail}
		if row.Pattern == "" {
			row.Pattern = "/"
		}
		if _, is := t.memberCounts[row]; !is && len(t.memberCounts) >= maxPatterns {
			row.Pattern, row.Detail = "(others)", "…"
		}
		t.memberCounts[row]++
		if refused := l.entry.Kind != "" && l.entry.Record == nil; m.Outcome != formats.OutcomeLeftOut || m.Detail == formats.DetailNull || refused {
			continue
		}
		if t.leftOutCount++; len(t.leftOutNotes) < maxDescribed {
			t.leftOutNotes = append(t.leftOutNotes, fmt.Sprintf("%s: %.200s was left out: %s", l.place(), m.Pointer, m.Detail))
		}
	}
}

// warn adds a message about a file unless there are already maxDescribed messages.
func (t *counter) warn(message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.warnings) < maxDescribed {
		t.warnings = append(t.warnings, message)
	}
}

// fail stores err if it is the first error from writing the report.
func (t *counter) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reportErr == nil {
		t.reportErr = err
	}
}

// countDryRun counts an entry in a dry run, according to whether the ledger would accept its record.
func (t *counter) countDryRun(l *line) {
	r, err := record.Parse(record.Kind(l.kind), l.entry.Record)
	if err != nil {
		t.refuse(l, err)
		return
	}
	a := answer{seq: "(none)"}
	for _, c := range r.Mismatches() {
		a.mismatched = append(a.mismatched, c.Field)
	}
	if lacks := record.MissingPartsJSON(r); lacks != nil {
		err = json.Unmarshal(lacks, &a.incomplete)
	}
	r.Release()
	if err != nil {
		t.refuse(l, err)
		return
	}
	t.accept(l, a)
	if c := l.entry.Change; c != nil {
		t.accept(&line{file: l.file, number: l.number, entry: l.entry, kind: string(c.Kind())}, answer{})
	}
}

// countsOf returns the counts of a kind. All unknown kinds share one row, so that a malformed file does
// not produce a long table. It is called with t.mu held.
func (t *counter) countsOf(kind string) *Counts {
	if !slices.Contains(kindNames(), kind) {
		kind = UnknownKind
	}
	c := t.kinds[kind]
	if c == nil {
		c = new(Counts)
		t.kinds[kind] = c
	}
	return c
}

// accept counts a line for which there is a receipt.
func (t *counter) accept(l *line, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.countsOf(l.kind)
	if a.replayed {
		c.Replayed++
		return
	}
	c.Accepted++
	if len(a.incomplete) > 0 {
		c.Incomplete++
		for _, part := range a.incomplete {
			t.lacking[part]++
		}
	}
	if len(a.mismatched) == 0 {
		return
	}
	c.Mismatched++
	if len(t.notes) < maxDescribed {
		t.notes = append(t.notes, fmt.Sprintf("%s: accepted as event %s, but these claims are wrong: %s",
			l.place(), a.seq, strings.Join(a.mismatched, ", ")))
	}
}

// refuse counts a line that the server refused or that could not be read.
func (t *counter) refuse(l *line, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countsOf(l.kind).Refused++
	if len(t.failures) < maxDescribed {
		t.failures = append(t.failures, l.place()+": "+err.Error())
	}
}

// kindNames returns the kinds of records and the kinds of changes that an import can make.
func kindNames() []string {
	names := make([]string, len(record.RecordKinds), len(record.RecordKinds)+3)
	for i, kind := range record.RecordKinds {
		names[i] = string(kind)
	}
	return append(names, string(record.KindRecordStateChanged), string(record.KindPathValidated), string(record.KindNote))
}

package audit

import (
	"bytes"
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// verbCheck checks that verbs are about earlier events that can have what the verbs give them
// (spec: States; Path validation; Redactions; Notes).
type verbCheck struct {
	past   Past
	reread *rereader
}

// stateChange checks that a record that has a state gets one of the states.
func (c *verbCheck) stateChange(e *event.Body) error {
	f := &e.State
	if !slices.Contains(record.States[:], record.State(f.State)) {
		return damaged(KindEvent, e.Seq, "it changes a record's state to %.100q, which is not a state", f.State)
	}
	target, err := c.earlier(e, f.RecordSeq)
	if err == nil && !target.Kind().HasState() {
		err = damaged(KindEvent, e.Seq, "it changes the state of event %d, but a %s has no state", f.RecordSeq, target.Kind())
	}
	return err
}

// note checks that the note is on a record.
func (c *verbCheck) note(e *event.Body) error {
	target, err := c.earlier(e, e.Note.RecordSeq)
	if err == nil && !target.Kind().IsRecord() {
		err = damaged(KindEvent, e.Seq, "it is a note on event %d, but a %s is no record", e.Note.RecordSeq, target.Kind())
	}
	return err
}

// validation checks that what is validated is the path of an earlier record. Its path_id may be
// longer than the record's (spec: Path id collisions).
func (c *verbCheck) validation(e *event.Body) error {
	f := &e.Validation
	target, err := c.earlier(e, f.RecordSeq)
	if err != nil {
		return err
	}
	if target.Kind() != record.PathFingerprint {
		return damaged(KindEvent, e.Seq, "it validates event %d, which is a %s, not a path", f.RecordSeq, target.Kind())
	}
	validated, err := c.reread.walked(f.RecordSeq)
	if err != nil {
		return err
	}
	path := validated.Path()
	if f.Build != nil && !bytes.Equal(path.Build, f.Build) {
		return damaged(KindEvent, e.Seq, "it validates a path in build %.100q, but event %d is of build %.100s", f.Build, f.RecordSeq, nullable(path.Build))
	}
	if !bytes.Equal(path.Project, f.Project) || !sameOrNull(path.ContentFingerprint, f.ContentFingerprint) ||
		!rules.IsPathID(f.PathID) || !bytes.HasPrefix(rules.RouteID(path.Passages), f.PathID) {
		return damaged(KindEvent, e.Seq, "it validates path %.100q of project %.100q with the content %.100s, but event %d is not of that",
			f.PathID, f.Project, nullable(f.ContentFingerprint), f.RecordSeq)
	}
	return nil
}

// redaction checks that the redacted events are earlier records with content, and marks them.
func (c *verbCheck) redaction(e *event.Body) error {
	list := e.Redaction.Seqs
	if list.Last() >= e.Seq {
		return damaged(KindEvent, e.Seq, "it redacts record %d, which is not before it", list.Last())
	}
	for seq := range list.All() {
		facts, err := c.facts(seq)
		if err != nil {
			return err
		}
		if facts&hasContent == 0 {
			return damaged(KindRedaction, e.Seq, "it redacts event %d, a %s that names no content", seq, facts.Kind())
		}
		if err := c.past.Mark(seq, IsRedacted); err != nil {
			return err
		}
	}
	return nil
}

// earlier returns the facts of the earlier event that an event is about.
func (c *verbCheck) earlier(e *event.Body, seq uint64) (Facts, error) {
	if seq >= e.Seq {
		return 0, damaged(KindEvent, e.Seq, "it is about event %d, which is not before it", seq)
	}
	return c.facts(seq)
}

// facts returns the facts of an earlier event.
func (c *verbCheck) facts(seq uint64) (Facts, error) {
	facts, err := c.past.Facts(seq)
	if err == nil && !facts.known() {
		err = fmt.Errorf("the kept facts of event %d are damaged: %#02x is not a kind", seq, uint8(facts))
	}
	return facts, err
}

// sameOrNull reports whether two texts are equal, or both null.
func sameOrNull(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// nullable returns a text as a message shows it.
func nullable(text []byte) []byte {
	if text == nil {
		return []byte("null")
	}
	return text
}

package audit

import (
	"bytes"
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// actionCheck checks events that act on earlier events, such as notes and redactions. The kind of
// the earlier event must allow the action (spec: States; Path validation; Redactions; Notes).
type actionCheck struct {
	past   History
	reread *rereader
}

// stateChange checks that the event changes the state of a record that has one, and that the new
// state is valid.
func (c *actionCheck) stateChange(e *event.Body) error {
	f := &e.StateChange
	if !slices.Contains(record.States[:], record.State(f.State)) {
		return damaged(DamageKindEvent, e.Seq, "the event changes a record's state to %.100q, which is not a valid state", f.State)
	}
	target, err := c.earlier(e, f.RecordSeq)
	if err == nil && !target.Kind().HasState() {
		err = damaged(DamageKindEvent, e.Seq, "the event changes the state of event %d, but a record of kind %s has no state", f.RecordSeq, target.Kind())
	}
	return err
}

// note checks that the note refers to an earlier event that contains a record.
func (c *actionCheck) note(e *event.Body) error {
	target, err := c.earlier(e, e.Note.RecordSeq)
	if err == nil && !target.Kind().IsRecord() {
		err = damaged(DamageKindEvent, e.Seq, "the event is a note on event %d, but events of kind %s are not records", e.Note.RecordSeq, target.Kind())
	}
	return err
}

// validation checks that the validated event is an earlier record of the path. The
// validation's path_id can be longer than the record's (spec: Path id collisions).
func (c *actionCheck) validation(e *event.Body) error {
	f := &e.PathValidation
	target, err := c.earlier(e, f.RecordSeq)
	if err != nil {
		return err
	}
	if target.Kind() != record.KindPathFingerprint {
		return damaged(DamageKindEvent, e.Seq, "the event validates event %d, whose kind is %s, not path_fingerprint", f.RecordSeq, target.Kind())
	}
	validated, err := c.reread.walked(f.RecordSeq)
	if err != nil {
		return err
	}
	path := validated.PathFingerprint()
	if f.Build != nil && !bytes.Equal(path.Build, f.Build) {
		return damaged(DamageKindEvent, e.Seq, "the event validates a path in build %.100q, but the build of event %d is %.100s", f.Build, f.RecordSeq, nullable(path.Build))
	}
	if !bytes.Equal(path.Project, f.Project) || !sameOrNull(path.ContentFingerprint, f.ContentFingerprint) ||
		!rules.IsPathID(f.PathID) || !bytes.HasPrefix(rules.RouteDigest(path.Passages), f.PathID) {
		return damaged(DamageKindEvent, e.Seq, "the event validates path %.100q of project %.100q with the content fingerprint %.100s, but event %d has a different path",
			f.PathID, f.Project, nullable(f.ContentFingerprint), f.RecordSeq)
	}
	return nil
}

// redaction checks that the redacted events are earlier records with content, and marks them as
// redacted.
func (c *actionCheck) redaction(e *event.Body) error {
	list := e.Redaction.Seqs
	if list.Last() >= e.Seq {
		return damaged(DamageKindEvent, e.Seq, "the event redacts record %d, which is not an earlier event", list.Last())
	}
	for seq := range list.All() {
		flags, err := c.flagsOf(seq)
		if err != nil {
			return err
		}
		if flags&hasContent == 0 {
			return damaged(DamageKindRedaction, e.Seq, "the event redacts event %d, which is of kind %s and names no content", seq, flags.Kind())
		}
		if err := c.past.OrFlags(seq, FlagRedacted); err != nil {
			return err
		}
	}
	return nil
}

// earlier returns the EventFlags of the event at seq, to which e refers. That event must come
// before e.
func (c *actionCheck) earlier(e *event.Body, seq uint64) (EventFlags, error) {
	if seq >= e.Seq {
		return 0, damaged(DamageKindEvent, e.Seq, "the event refers to event %d, which is not an earlier event", seq)
	}
	return c.flagsOf(seq)
}

// flagsOf returns the EventFlags of an earlier event. It returns an error if they do not contain a
// known kind.
func (c *actionCheck) flagsOf(seq uint64) (EventFlags, error) {
	flags, err := c.past.Flags(seq)
	if err == nil && !flags.known() {
		err = fmt.Errorf("the stored flags of event %d are damaged: %#02x does not encode a known kind", seq, uint8(flags))
	}
	return flags, err
}

// sameOrNull reports whether two texts are equal or both null.
func sameOrNull(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// nullable returns a text for use in a message, with nil represented as null.
func nullable(text []byte) []byte {
	if text == nil {
		return []byte("null")
	}
	return text
}

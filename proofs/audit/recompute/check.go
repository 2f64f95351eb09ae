package recompute

import (
	"bytes"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
)

// Checker checks that the fields of an event are consistent with each other. It reuses its memory,
// so only one goroutine may use it at a time.
type Checker struct {
	*event.Body
	seen int // number of the event's checks that have been compared so far

	joined, id []byte   // scratch
	parts      [][]byte // scratch
}

// Check verifies that an event's checks are consistent with its effective hashes, with the hashes
// that can be computed from its fields, and with the content that it names (spec: Checks; Effective
// hashes). Check also verifies the digest of an action. The caller must have checked that each
// field of the event has a valid form. The error is an *Error.
func (c *Checker) Check(e *event.Body) error {
	c.Body, c.seen = e, 0
	var err error
	switch e.Kind {
	case record.KindIPCRecord:
		err = c.checkIPC()
	case record.KindRunDAG:
		err = c.checkRunDAG()
	case record.KindCitationSet:
		err = c.checkCitations()
	case record.KindPathFingerprint:
		err = c.checkPath()
	case record.KindRecordRefused:
		err = c.checkRefusal()
	default:
		if action, isAction := e.Fields.(fields.Action); isAction {
			err = c.checkAction(action)
		}
	}
	if err != nil {
		return err
	}
	if n := len(e.Checks); n != c.seen {
		return malformed("the event has %d checks, but only %d of them belong to a hash in the event", n, c.seen)
	}
	return nil
}

// origin says where an effective hash comes from.
type origin uint8

const (
	unknown  origin = iota // the event does not show the origin
	computed               // computed from content or from other hashes
	claimed                // claimed by the writer, because there is nothing from which to compute it
)

// originOf returns the origin of a hash that covers the named content: computed if the event has
// that content, and claimed otherwise.
func (c *Checker) originOf(content string) origin {
	if c.HasContent(content) {
		return computed
	}
	return claimed
}

// field is one hash of a record.
type field struct {
	name      string
	effective []byte // nil means null
	origin    origin
	// recomputed is the hash computed from the event's other fields, or nil if they are not
	// sufficient to compute it.
	recomputed []byte
	// withheld means that the effective hash must be null even if the writer claimed a hash. Only
	// the check then shows the claimed hash.
	withheld bool
	// form reports whether a text is a well-formed hash of this type. If form is nil,
	// rules.IsDigest is used.
	form func([]byte) bool
}

// hexForm returns a value for field.form that accepts hashes of n hexadecimal digits.
func hexForm(n int) func([]byte) bool {
	return func(text []byte) bool { return rules.IsHexDigits(text, n) }
}

// all calls c.field for each of the given fields, in order, and returns the first error.
func (c *Checker) all(fields ...field) error {
	for i := range fields {
		if err := c.field(&fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// field verifies one hash of the event and the check of that hash.
func (c *Checker) field(f *field) error {
	if f.recomputed != nil && !bytes.Equal(f.effective, f.recomputed) {
		return wrongField(f.name, "the hash is %.100s, but the event's other fields give %s", orNull(f.effective), f.recomputed)
	}
	if f.origin == computed && f.effective == nil {
		return wrongField(f.name, "the hash is missing, although the event has the data to compute it from")
	}
	if f.withheld && f.effective != nil {
		return wrongField(f.name, "the hash is %.100s, although values that it covers are missing", f.effective)
	}
	check := c.CheckByName(f.name)
	if check == nil {
		if f.effective != nil {
			return wrongField(f.name, "the hash is %.100s, but the event has no check for it", f.effective)
		}
		return nil
	}
	c.seen++
	wrong := f.wrong(check)
	if wrong == "" && check.Claimed != nil && !f.isHash(check.Claimed) {
		wrong = fmt.Sprintf("the claim is %.100q, which is not a valid value for this hash", check.Claimed)
	}
	if wrong != "" {
		return wrongField(f.name, "%s", wrong)
	}
	return nil
}

// isHash reports whether a text has the form of the field's hash.
func (f *field) isHash(text []byte) bool {
	if f.form == nil {
		return rules.IsDigest(text)
	}
	return f.form(text)
}

// wrong returns the reason why the result of a check, or a value that the check shows, cannot be
// correct. It returns "" if it finds nothing wrong.
func (f *field) wrong(check *record.EventCheck) string {
	switch check.Result {
	case record.ResultMismatch:
		return f.wrongMismatch(check)
	case record.ResultMatch, record.ResultComputed:
		if f.origin == claimed {
			return fmt.Sprintf("the result is %s, although there is no data to compute the hash from", check.Result)
		}
	case record.ResultClaimed:
		if f.origin == computed {
			return fmt.Sprintf("the result is %s, although there is data to compute the hash from", check.Result)
		}
	default:
		return fmt.Sprintf("the result %.100q is not valid for this check", check.Result)
	}
	switch {
	case f.withheld && check.Claimed == nil:
		return fmt.Sprintf("the result is %s and the hash is withheld, but the check does not show the claimed hash", check.Result)
	case !f.withheld && check.Claimed != nil:
		return fmt.Sprintf("the result is %s, but the check shows a claimed hash", check.Result)
	case f.effective == nil && !f.withheld:
		return fmt.Sprintf("the result is %s, but the event does not have the hash", check.Result)
	}
	return ""
}

// wrongMismatch does the work of wrong for a check whose result is mismatch. The claimed and
// computed values must differ, and the computed value must be the effective hash.
func (f *field) wrongMismatch(check *record.EventCheck) string {
	switch {
	case f.origin == claimed:
		return "the result is \"mismatch\", although there is no data to compute the hash from"
	case check.Claimed == nil:
		return "the result is \"mismatch\", but the check does not show the claimed hash"
	case bytes.Equal(check.Claimed, check.Computed):
		return fmt.Sprintf(`the result is "mismatch", but "claimed" and "computed" are both %.100s`, check.Claimed)
	case !bytes.Equal(check.Computed, f.effective):
		return fmt.Sprintf("the check's computed value is %.100s, but the event's hash is %.100s", orNull(check.Computed), orNull(f.effective))
	}
	return ""
}

package recompute

import (
	"bytes"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// Checker checks events against their own fields. It reuses its memory, and one goroutine uses it
// at a time.
type Checker struct {
	*event.Body
	seen int // the checks of the event that were asked for

	joined, id []byte   // scratch
	parts      [][]byte // scratch
}

// Check checks that the checks of an event follow from its effective hashes, from what these are
// recomputed to, and from whether there is content to compute them from (spec: Checks; Effective
// hashes), and the digest of a verb from what it asks for. Each field of the event has a valid form.
// The error is an *Error.
func (c *Checker) Check(e *event.Body) error {
	c.Body, c.seen = e, 0
	var err error
	switch e.Kind {
	case record.IPCRecord:
		err = c.checkIPC()
	case record.RunDAG:
		err = c.checkRunDAG()
	case record.CitationSet:
		err = c.checkCitations()
	case record.PathFingerprint:
		err = c.checkPath()
	case record.RecordRefused:
		err = c.checkRefusal()
	default:
		if verb, isVerb := e.Fields.(record.VerbFields); isVerb {
			err = c.checkVerb(verb)
		}
	}
	if err != nil {
		return err
	}
	if n := len(e.Checks); n != c.seen {
		return malformed("it has %d checks, but only %d are of hashes that it has", n, c.seen)
	}
	return nil
}

// origin says where an effective hash comes from.
type origin uint8

const (
	unknown  origin = iota // the event does not show it
	computed               // from content, or from other hashes
	claimed                // from the writer: there is nothing to compute it from
)

// originOf returns the origin of a hash that is computed from the content with that name.
func (c *Checker) originOf(content string) origin {
	if c.HasContent(content) {
		return computed
	}
	return claimed
}

// field is one hash of a record.
type field struct {
	name      string
	effective []byte // nil is null
	origin    origin
	// recomputed is the hash that the event's other fields give; nil if they give none.
	recomputed []byte
	// withheld: the effective hash is null whatever was claimed, and the check shows the claim.
	withheld bool
	// form reports whether a text can be such a hash; nil stands for rules.IsDigest.
	form func([]byte) bool
}

// digitsOf returns the form of hashes of n digits.
func digitsOf(n int) func([]byte) bool {
	return func(text []byte) bool { return rules.IsDigits(text, n) }
}

// all checks fields in their order.
func (c *Checker) all(fields ...field) error {
	for i := range fields {
		if err := c.field(&fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// field checks one field and the check of it.
func (c *Checker) field(f *field) error {
	if f.recomputed != nil && !bytes.Equal(f.effective, f.recomputed) {
		return wrongField(f.name, "its hash is %.100s, but the event's other fields give %s", orNull(f.effective), f.recomputed)
	}
	if f.origin == computed && f.effective == nil {
		return wrongField(f.name, "it has no hash, though there is something to compute it from")
	}
	if f.withheld && f.effective != nil {
		return wrongField(f.name, "its hash is %.100s, though what it covers is incomplete", f.effective)
	}
	check := c.CheckOf(f.name)
	if check == nil {
		if f.effective != nil {
			return wrongField(f.name, "its hash is %.100s, but there is no check of it", f.effective)
		}
		return nil
	}
	c.seen++
	wrong := f.wrong(check)
	if wrong == "" && check.Claimed != nil && !f.isHash(check.Claimed) {
		wrong = fmt.Sprintf("its claim is %.100q, which cannot be such a hash", check.Claimed)
	}
	if wrong != "" {
		return wrongField(f.name, "%s", wrong)
	}
	return nil
}

// isHash reports whether a text can be such a hash.
func (f *field) isHash(text []byte) bool {
	if f.form == nil {
		return rules.IsDigest(text)
	}
	return f.form(text)
}

// wrong says what is wrong with the result of a check and the values that it shows. It returns
// "" if nothing is.
func (f *field) wrong(check *record.CheckField) string {
	switch check.Result {
	case record.Mismatch:
		return f.wrongMismatch(check)
	case record.Match, record.Computed:
		if f.origin == claimed {
			return fmt.Sprintf("its result is %s, though there is nothing to compute it from", check.Result)
		}
	case record.Claimed:
		if f.origin == computed {
			return fmt.Sprintf("its result is %s, though there is something to compute it from", check.Result)
		}
	default:
		return fmt.Sprintf("its result is %.100q", check.Result)
	}
	switch {
	case f.withheld && check.Claimed == nil:
		return fmt.Sprintf("its result is %s and its hash is withheld, but the claim is not shown", check.Result)
	case !f.withheld && check.Claimed != nil:
		return fmt.Sprintf("its result is %s, but the claim is shown", check.Result)
	case f.effective == nil && !f.withheld:
		return fmt.Sprintf("its result is %s, but there is no hash", check.Result)
	}
	return ""
}

// wrongMismatch is wrong for a mismatch, which shows two different values. The computed one is
// effective.
func (f *field) wrongMismatch(check *record.CheckField) string {
	switch {
	case f.origin == claimed:
		return "its result is mismatch, though there is nothing to compute it from"
	case check.Claimed == nil:
		return "its result is mismatch, but the claim is not shown"
	case bytes.Equal(check.Claimed, check.Computed):
		return fmt.Sprintf("its result is mismatch, but claimed and computed are both %.100s", check.Claimed)
	case !bytes.Equal(check.Computed, f.effective):
		return fmt.Sprintf("its computed value is %.100s, but its hash is %.100s", orNull(check.Computed), orNull(f.effective))
	}
	return ""
}

package audit

import (
	"bytes"
	"fmt"

	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// claims checks what an event says of the claims of its record (spec: Checks; Effective hashes):
// that each check follows from the effective hash, from what that is recomputed to, and from
// whether there is content to recompute it from. It has seen all checks when as many are
// asked for as there are.
type claims struct {
	e    *decoded
	seen int // checks that were asked for and are there
}

// knowledge says what an event tells of where an effective hash comes from.
type knowledge uint8

const (
	unknown  knowledge = iota // it tells nothing
	computed                  // from content, or from other hashes
	claimed                   // from the writer: there is nothing to compute it from
)

// field is one hash of a record.
type field struct {
	name      string
	effective []byte // nil is null
	from      knowledge
	// recomputed is what the event's other fields make of the hash; nil where they say
	// nothing.
	recomputed []byte
	// withheld: the effective hash is null whatever was claimed, and the check shows the
	// claim.
	withheld bool
	// form reports whether a text can be such a hash; nil stands for rules.IsDigest.
	form func([]byte) bool
}

// digitsOf is the form of hashes of n digits.
func digitsOf(n int) func([]byte) bool {
	return func(text []byte) bool { return rules.IsDigits(text, n) }
}

// check checks one field.
func (c *claims) check(f field) error {
	e := c.e
	if f.recomputed != nil && !bytes.Equal(f.effective, f.recomputed) {
		return checkDamaged(e.seq, f.name, "its hash is %.100s, the event's other fields make it %s", orNull(f.effective), f.recomputed)
	}
	if f.from == computed && f.effective == nil {
		return checkDamaged(e.seq, f.name, "there is something to compute it from, but no hash")
	}
	if f.withheld && f.effective != nil {
		return checkDamaged(e.seq, f.name, "its hash is %.100s, though what it covers is incomplete", f.effective)
	}
	check := e.CheckOf(f.name)
	if check == nil {
		if f.effective != nil {
			return checkDamaged(e.seq, f.name, "its hash is %.100s, but there is no check of it", f.effective)
		}
		return nil
	}
	c.seen++
	wrong := f.wrong(check)
	if wrong == "" && check.Claimed != nil && !f.isHash(check.Claimed) {
		wrong = fmt.Sprintf("its claim %.100q is no such hash", check.Claimed)
	}
	if wrong != "" {
		return checkDamaged(e.seq, f.name, "%s", wrong)
	}
	e.failed = e.failed || check.Result == record.Mismatch
	return nil
}

// isHash reports whether a text can be such a hash.
func (f *field) isHash(text []byte) bool {
	if f.form == nil {
		return rules.IsDigest(text)
	}
	return f.form(text)
}

// wrong says what is wrong with the result of a check and the values that it shows, if
// anything is.
func (f *field) wrong(check *record.CheckField) string {
	switch check.Result {
	case record.Mismatch:
		return f.wrongMismatch(check)
	case record.Match, record.Computed:
		if f.from == claimed {
			return fmt.Sprintf("its result is %s, though there is nothing to compute it from", check.Result)
		}
	case record.Claimed:
		if f.from == computed {
			return fmt.Sprintf("its result is %s, though there is something to compute it from", check.Result)
		}
	default:
		return fmt.Sprintf("its result is %.100q", check.Result)
	}
	switch {
	case f.withheld != (check.Claimed != nil):
		return fmt.Sprintf("its result is %s; the claim is shown where the hash is withheld, and nowhere else", check.Result)
	case f.effective == nil && !f.withheld:
		return fmt.Sprintf("its result is %s, but there is no hash", check.Result)
	}
	return ""
}

// wrongMismatch is wrong for a mismatch, which shows both values: they differ, and the
// computed one is effective.
func (f *field) wrongMismatch(check *record.CheckField) string {
	switch {
	case f.from == claimed:
		return "its result is mismatch, though there is nothing to compute it from"
	case check.Claimed == nil:
		return "its result is mismatch, but the claim is not shown"
	case bytes.Equal(check.Claimed, check.Computed):
		return fmt.Sprintf("its result is mismatch, but claimed and computed are both %.100s", check.Claimed)
	case !bytes.Equal(check.Computed, f.effective):
		return fmt.Sprintf("computed is %.100s, but the hash is %.100s", orNull(check.Computed), orNull(f.effective))
	}
	return ""
}

// done checks that there are no checks but those that were asked for.
func (c *claims) done() error {
	if n := len(c.e.Checks); n != c.seen {
		return c.e.damaged("it has %d checks, %d of them of hashes that it has", n, c.seen)
	}
	return nil
}

// from says where a hash comes from that content of that name would be hashed into.
func (e *decoded) from(content string) knowledge {
	if e.HasContent(content) {
		return computed
	}
	return claimed
}

func orNull(hash []byte) []byte {
	if hash == nil {
		return []byte("null")
	}
	return hash
}

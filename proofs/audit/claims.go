package audit

import (
	"bytes"
	"fmt"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// claims checks what an event says of the claims of its record (2.4): that each check
// follows from the effective hash, from what that is recomputed to, and from whether
// there is content to recompute it from. It has seen all checks when as many are
// asked for as there are.
type claims struct {
	e    *event
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
	v := e.checks.Member(f.name)
	if v.Kind() == pyjson.Absent {
		if f.effective != nil {
			return checkDamaged(e.seq, f.name, "its hash is %.100s, but there is no check of it", f.effective)
		}
		return nil
	}
	c.seen++
	var m [len(checkMembers)]pyjson.Value
	result, alone := aloneResult(v.Raw())
	if !alone {
		if err := e.members("a check", v, checkMembers[:], m[:]); err != nil {
			return err
		}
		result = m[2].Text()
	}
	wrong := f.wrong(m[0], m[1], result)
	if claim := m[0]; wrong == "" && claim.Kind() == pyjson.String && !f.isHash(claim.Text()) {
		wrong = fmt.Sprintf("its claim %.100s is no such hash", claim.Raw())
	}
	if wrong != "" {
		return checkDamaged(e.seq, f.name, "%s", wrong)
	}
	e.failed = e.failed || m[1].Kind() != pyjson.Absent // which only a mismatch shows
	return nil
}

// aloneResult is the result of a check that has no other members; most have none
// (BenchmarkExtend).
func aloneResult(check []byte) (result []byte, alone bool) {
	rest, found := bytes.CutPrefix(check, []byte(`{"result":"`))
	result, ends := bytes.CutSuffix(rest, []byte(`"}`))
	return result, found && ends && bytes.IndexByte(result, '"') < 0
}

// isHash reports whether a text can be such a hash.
func (f *field) isHash(text []byte) bool {
	if f.form == nil {
		return rules.IsDigest(text)
	}
	return f.form(text)
}

// checkMembers are the members of a check.
var checkMembers = [...]member{{"claimed", text, sometimes}, {"computed", nullable, sometimes}, {"result", text, always}}

// wrong says what is wrong with the result of a check and the values that it shows, if
// anything is.
func (f *field) wrong(claim, value pyjson.Value, result []byte) string {
	switch record.Result(result) {
	case record.Mismatch:
		return f.wrongMismatch(claim, value)
	case record.Match, record.Computed:
		if f.from == claimed {
			return fmt.Sprintf("its result is %s, though there is nothing to compute it from", result)
		}
	case record.Claimed:
		if f.from == computed {
			return fmt.Sprintf("its result is %s, though there is something to compute it from", result)
		}
	default:
		return fmt.Sprintf("its result is %.100q", result)
	}
	switch {
	case value.Kind() != pyjson.Absent:
		return fmt.Sprintf("its result is %s, but computed is shown beside it", result)
	case f.withheld != (claim.Kind() != pyjson.Absent):
		return fmt.Sprintf("its result is %s; the claim is shown where the hash is withheld, and nowhere else", result)
	case f.effective == nil && !f.withheld:
		return fmt.Sprintf("its result is %s, but there is no hash", result)
	}
	return ""
}

// wrongMismatch is wrong for a mismatch, which shows both values: they differ, and the
// computed one is effective.
func (f *field) wrongMismatch(claim, value pyjson.Value) string {
	switch {
	case f.from == claimed:
		return "its result is mismatch, though there is nothing to compute it from"
	case claim.Kind() == pyjson.Absent || value.Kind() == pyjson.Absent:
		return "its result is mismatch, but the two values are not shown"
	case bytes.Equal(claim.Text(), value.Text()):
		return fmt.Sprintf("its result is mismatch, but claimed and computed are both %.100s", claim.Text())
	case !bytes.Equal(value.Text(), f.effective):
		return fmt.Sprintf("computed is %.100s, but the hash is %.100s", value.Raw(), orNull(f.effective))
	}
	return ""
}

// done checks that there are no checks but those that were asked for.
func (c *claims) done() error {
	if n := c.e.checks.Len(); n != c.seen {
		return c.e.damaged("it has %d checks, %d of them of hashes that it has", n, c.seen)
	}
	return nil
}

// has says where a hash comes from that content of that name would be hashed into.
func has(content pyjson.Value, name string) knowledge {
	if content.Member(name).Kind() != pyjson.Absent {
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

// hash is the text of a hash; nil for null and where there is none.
func hash(v pyjson.Value) []byte {
	if v.Kind() != pyjson.String {
		return nil
	}
	return v.Text()
}

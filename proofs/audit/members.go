package audit

import (
	"encoding/hex"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// kinds is a set of kinds of JSON values, and what else the API demands of them.
type kinds uint32

// What members of events are.
const (
	text     kinds = 1 << pyjson.String
	integer  kinds = 1 << pyjson.Integer
	float    kinds = 1 << pyjson.Float
	object   kinds = 1 << pyjson.Object
	array    kinds = 1 << pyjson.Array
	null     kinds = 1 << pyjson.Null
	truth    kinds = 1<<pyjson.True | 1<<pyjson.False
	number   kinds = integer | float
	nullable kinds = text | null
)

// What the API demands of a member beside its type, whatever its settings. Lengths are in
// bytes.
const (
	formFilled  kinds = 1 << (16 + iota) // not empty
	formShort                            // at most record.MaxShort
	formName                             // at most record.MaxName
	formReason                           // at most record.MaxReason
	formDigest                           // 64 lower-case hexadecimal digits
	formNatural                          // not negative
	forms       = formFilled | formShort | formName | formReason | formDigest | formNatural
)

// What members are that have a form.
const (
	shortText      = text | formShort
	nameText       = text | formName
	identifier     = nameText | formFilled
	reasonText     = text | formReason
	digestText     = text | formDigest
	nullableDigest = nullable | formDigest
	natural        = integer | formNatural
)

// malformed says what is wrong with the form of a member, if anything is.
func (k kinds) malformed(kind pyjson.Kind, v pyjson.Value) string {
	raw := v.Raw()
	switch {
	case kind == pyjson.Integer && k&formNatural != 0 && raw[0] == '-':
		return "is negative"
	case kind != pyjson.String:
		return ""
	}
	const quotes = len(`""`)
	long := len(raw) - quotes // no less than the text: escapes make raw longer
	most := record.MaxShort
	switch {
	case k&formDigest != 0 && !rules.IsDigest(raw[1:len(raw)-1]):
		return "is no SHA-256 in hexadecimal digits"
	case k&formFilled != 0 && long == 0:
		return "is empty"
	case long <= most || k&formDigest != 0:
		return ""
	case k&formName != 0:
		most = record.MaxName
	case k&formReason != 0:
		most = record.MaxReason
	case k&formShort == 0:
		return ""
	}
	if long > most && len(v.Text()) > most {
		return "is longer than the API allows"
	}
	return ""
}

// presence says whether a member may be left out.
type presence bool

const (
	always    presence = false
	sometimes presence = true
)

// member is one member that an object of an event may have.
type member struct {
	name     string
	kinds    kinds
	presence presence
}

// members takes an object apart, whose members stand in canonical order: those that it
// may have are known, in that order. found, unless it is nil, gets their values, Absent for
// those that are left out. what names the object in messages.
func (e *event) members(what string, o pyjson.Value, known []member, found []pyjson.Value) error {
	if o.Kind() != pyjson.Object {
		return e.damaged("%s is not an object", what)
	}
	next := 0
	for member, value := range o.Members() {
		name := member.Text()
		for next < len(known) && string(name) != known[next].name {
			if known[next].presence == always {
				return e.damaged("%s lacks the member %q, or it has one that is unknown, %.100q", what, known[next].name, name)
			}
			next++
		}
		if next == len(known) {
			return e.damaged("%s has a member %.100q that is unknown", what, name)
		}
		allowed, kind := known[next].kinds, value.Kind()
		if allowed&(1<<kind) == 0 {
			return e.damaged("%s has as %q the value %.100s, which is of another type", what, known[next].name, value.Raw())
		}
		if allowed&forms != 0 {
			if wrong := allowed.malformed(kind, value); wrong != "" {
				return e.damaged("%s has as %q the value %.100s, which %s", what, known[next].name, value.Raw(), wrong)
			}
		}
		if found != nil {
			found[next] = value
		}
		next++
	}
	for ; next < len(known); next++ {
		if known[next].presence == always {
			return e.damaged("%s lacks the member %q", what, known[next].name)
		}
	}
	return nil
}

// count reads an integer from 0 to 2^64-1.
func count(v pyjson.Value) (uint64, bool) {
	raw := v.Raw()
	if v.Kind() != pyjson.Integer || raw[0] == '-' {
		return 0, false
	}
	if len(raw) < len("10000000000000000000") { // what is longer may not fit 64 bits
		n := uint64(0)
		for _, digit := range raw {
			n = n*10 + uint64(digit-'0')
		}
		return n, true
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	return n, err == nil
}

// parseDigest reads a SHA-256 that is known to be one.
func parseDigest(text []byte) (h proofs.Hash, ok bool) {
	if len(text) != hex.EncodedLen(len(h)) {
		return h, false
	}
	_, err := hex.Decode(h[:], text)
	return h, err == nil
}

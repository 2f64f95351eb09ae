package audit

import (
	"encoding/hex"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// kinds is a set of kinds of JSON values.
type kinds uint16

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
	for name, value := range o.Members() {
		for next < len(known) && string(name.Text()) != known[next].name {
			if known[next].presence == always {
				return e.damaged("%s lacks the member %q, or it has one that is unknown, %.100q", what, known[next].name, name.Text())
			}
			next++
		}
		if next == len(known) {
			return e.damaged("%s has a member %.100q that is unknown", what, name.Text())
		}
		if known[next].kinds&(1<<value.Kind()) == 0 {
			return e.damaged("%s has as %q the value %.100s, which is of another type", what, known[next].name, value.Raw())
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

// notHex is 0 for the lower-case hexadecimal digits, 1 for all other bytes.
var notHex = func() (table [256]byte) {
	for c := range table {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			table[c] = 1
		}
	}
	return table
}()

// isDigits reports whether a text is exactly n lower-case hexadecimal digits.
func isDigits(text []byte, n int) bool {
	bad := byte(0)
	for _, c := range text {
		bad |= notHex[c]
	}
	return len(text) == n && bad == 0
}

// isDigest is isDigits of a SHA-256.
func isDigest(text []byte) bool { return isDigits(text, hex.EncodedLen(proofs.HashSize)) }

// parseDigest reads a SHA-256.
func parseDigest(text []byte) (h proofs.Hash, ok bool) {
	if !isDigest(text) {
		return proofs.Hash{}, false
	}
	_, err := hex.Decode(h[:], text)
	return h, err == nil
}

package fields

import (
	"bytes"
	"fmt"

	"colophon/ledger/record/rules"
)

// forms checks the fields of a decoded event and keeps the first error. Lengths are in bytes. A nil
// field counts as missing.
type forms struct{ err error }

func (f *forms) fail(name string, text []byte, what string) {
	if f.err == nil {
		f.err = fmt.Errorf("the event's %s is %.100q, which %s", name, text, what)
	}
}

// text checks the length of an optional text.
func (f *forms) text(name string, text []byte, limit int) {
	if len(text) > limit {
		f.fail(name, text, "is longer than the API allows")
	}
}

// required checks a text that must be present but may be empty.
func (f *forms) required(name string, text []byte, limit int) {
	if text == nil && f.err == nil {
		f.err = fmt.Errorf("the event's member %q is missing or has the wrong type", name)
	}
	f.text(name, text, limit)
}

// filled checks that a required text is present, is not empty, and is within the limit.
func (f *forms) filled(name string, text []byte, limit int) {
	f.required(name, text, limit)
	if text != nil && len(text) == 0 {
		f.fail(name, text, "is empty")
	}
}

// hash checks an optional SHA-256.
func (f *forms) hash(name string, digits []byte) {
	if digits != nil && !rules.IsDigest(digits) {
		f.fail(name, digits, "is not a SHA-256 in hexadecimal")
	}
}

func (f *forms) requiredHash(name string, digits []byte) {
	f.required(name, digits, len(digits))
	f.hash(name, digits)
}

// integer checks an optional integer, which must be in plain decimal.
func (f *forms) integer(name string, raw []byte) {
	digits, _ := bytes.CutPrefix(raw, []byte("-"))
	ok := len(digits) > 0 && (digits[0] != '0' || len(raw) == 1)
	for _, c := range digits {
		ok = ok && '0' <= c && c <= '9'
	}
	if raw != nil && !ok {
		f.fail(name, raw, "is not an integer in plain decimal")
	}
}

// count checks an optional nonnegative integer.
func (f *forms) count(name string, raw []byte) {
	f.integer(name, raw)
	if len(raw) > 0 && raw[0] == '-' {
		f.fail(name, raw, "is negative")
	}
}

// sortedSet checks an optional list. The list must be sorted, without duplicates, and no longer than
// MaxSetElements, and valid must return true for each element.
func (f *forms) sortedSet(name string, list [][]byte, valid func([]byte) bool) {
	for i, text := range list {
		if !valid(text) || i > 0 && bytes.Compare(list[i-1], text) >= 0 || i == MaxSetElements {
			f.fail(name, text, "is malformed, out of order, repeated, or beyond the maximum length of the list")
		}
	}
}

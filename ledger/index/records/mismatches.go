package records

import (
	"bytes"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
)

// mismatchName is the name of values that are checked fields with a mismatch. The values are
// the labels of the metric, so that records can be found from the metric. mismatched is the
// flag of a record with any mismatch (spec: Checks).
const (
	mismatchName = "mismatch"
	mismatched   = "mismatch"
)

// CheckedField reports whether a text is a possible value of mismatchName, and so of the
// metric's label field.
func CheckedField(name string) bool {
	return name == counters.Other || counters.FieldLabel([]byte(name)) == name
}

// addMismatches adds the fields with a mismatch, and the flag. They come after all other
// values, because Identities does not cache them.
func (v *Values) addMismatches(e *event.Event) {
	if !bytes.Contains(e.Checks.Raw(), []byte(`"`+record.Mismatch+`"`)) { // true of nearly all records
		return
	}
	first := len(v.list)
	for name, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) != string(record.Mismatch) {
			continue
		}
		// A citation set may have the same field hundreds of times.
		if p := postingOf(mismatchName, []byte(counters.FieldLabel(name.Text()))); !slices.Contains(v.list[first:], p) {
			v.list = append(v.list, p)
		}
	}
	if len(v.list) > first {
		v.list = append(v.list, postingOf(Flag, []byte(mismatched)))
	}
}

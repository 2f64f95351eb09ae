package records

import (
	"bytes"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
)

// mismatchName is the name of the fields whose claims did not hold, as the metric has
// them, so that whoever sees it rise finds the records. mismatched is the flag of a
// record that has any (spec: Checks).
const (
	mismatchName = "mismatch"
	mismatched   = "mismatch"
)

// CheckedField reports whether a text is the name of a checked field, as values of
// mismatchName and the metric of checks have it.
func CheckedField(name string) bool {
	return name == counters.Other || counters.FieldLabel([]byte(name)) == name
}

// addMismatches adds the flag and the fields of a record with claims that do not hold,
// behind all other values: they are not among those that identities knows.
func (v *Values) addMismatches(e *event.Event) {
	if !bytes.Contains(e.Checks.Raw(), []byte(`"`+record.Mismatch+`"`)) { // nearly all
		return
	}
	first := len(v.list)
	for name, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) != string(record.Mismatch) {
			continue
		}
		// A set has the field of its chunks hundreds of times.
		if p := postingOf(mismatchName, []byte(counters.FieldLabel(name.Text()))); !slices.Contains(v.list[first:], p) {
			v.list = append(v.list, p)
		}
	}
	if len(v.list) > first {
		v.list = append(v.list, postingOf(Flag, []byte(mismatched)))
	}
}

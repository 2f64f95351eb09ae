package audit

import (
	"bytes"

	"colophon/ledger/record/pyjson"
)

// Difference is the first place where an event and the same event written again differ, as a
// JSON pointer, and what stands there: Absent for nothing. Both are in canonical form. What
// stands where passed says so is not compared.
func Difference(event, again pyjson.Value, passed func(pointer string, event, again pyjson.Value) bool) (pointer string, says, makes pyjson.Value, found bool) {
	return differenceAt("", event, again, passed)
}

func differenceAt(pointer string, event, again pyjson.Value, passed func(pointer string, event, again pyjson.Value) bool) (at string, says, makes pyjson.Value, found bool) {
	if event.Kind() != pyjson.Object || again.Kind() != pyjson.Object {
		return pointer, event, again, true
	}
	for _, side := range [...]pyjson.Value{event, again} {
		for name := range side.Members() {
			next := string(pyjson.AppendPointer([]byte(pointer), name.Text()))
			a, b := event.Member(string(name.Text())), again.Member(string(name.Text()))
			if bytes.Equal(a.Raw(), b.Raw()) || passed(next, a, b) {
				continue
			}
			if at, says, makes, found = differenceAt(next, a, b, passed); found {
				return at, says, makes, true
			}
		}
	}
	return "", pyjson.Value{}, pyjson.Value{}, false
}

package record

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record/pyjson"
)

// builder writes compact canonical JSON objects (1.2). Members may be added in
// any order: close sorts those that are out of order.
type builder struct {
	b       []byte
	members []memberSpan // of all open objects, innermost last
	opened  []int        // index into members where each open object begins
	scratch []byte
}

// memberSpan is one member in builder.b: `"name":value,`.
type memberSpan struct {
	name       string
	start, end int
}

func (w *builder) open() {
	w.b = append(w.b, '{')
	w.opened = append(w.opened, len(w.members))
}

// name begins a member; its value is appended to w.b before the next call.
func (w *builder) name(name string) {
	w.endMember()
	w.members = append(w.members, memberSpan{name: name, start: len(w.b)})
	w.b = pyjson.AppendString(w.b, []byte(name))
	w.b = append(w.b, ':')
}

// endMember puts the comma behind the member before, if there is one.
func (w *builder) endMember() {
	if len(w.members) > w.opened[len(w.opened)-1] {
		w.b = append(w.b, ',')
		w.members[len(w.members)-1].end = len(w.b)
	}
}

func (w *builder) close() {
	w.endMember()
	first := w.opened[len(w.opened)-1]
	members := w.members[first:]
	byName := func(a, b memberSpan) int { return strings.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(members, byName) {
		start := members[0].start
		slices.SortFunc(members, byName)
		w.scratch = append(w.scratch[:0], w.b[start:]...)
		w.b = w.b[:start]
		for _, m := range members {
			w.b = append(w.b, w.scratch[m.start-start:m.end-start]...)
		}
	}
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name {
			// Nothing could read the event any more: better none than that.
			panic("record: two members named " + members[i].name)
		}
	}
	if len(members) > 0 {
		w.b = w.b[:len(w.b)-1]
	}
	w.b = append(w.b, '}')
	w.members, w.opened = w.members[:first], w.opened[:len(w.opened)-1]
}

// text adds a string; nil adds nothing.
func (w *builder) text(name string, value []byte) {
	if value != nil {
		w.name(name)
		w.b = pyjson.AppendString(w.b, value)
	}
}

// nullable adds a string, or null for nil.
func (w *builder) nullable(name string, value []byte) {
	if value == nil {
		w.raw(name, []byte("null"))
		return
	}
	w.text(name, value)
}

// raw adds a value that is canonical JSON already; nil adds nothing.
func (w *builder) raw(name string, value []byte) {
	if value != nil {
		w.name(name)
		w.b = append(w.b, value...)
	}
}

// value adds a value of the request; Absent adds nothing.
func (w *builder) value(name string, v pyjson.Value) {
	if v.Given() {
		w.name(name)
		w.b = v.AppendCanonical(w.b, pyjson.Compact)
	}
}

func (w *builder) integer(name string, value int) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, int64(value), 10)
}

func (w *builder) digest(name string, h Hash) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b = hex.AppendEncode(w.b, h[:])
	w.b = append(w.b, '"')
}

// comma separates array elements; i is the index of the one that follows.
func (w *builder) comma(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
}

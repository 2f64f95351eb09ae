package pyjson

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Builder writes compact canonical JSON objects (spec: Canonical JSON). Members can be added
// in any order: Close sorts those that are out of order. The zero Builder is ready to use.
type Builder struct {
	B       []byte // what has been written so far; the caller can append values to it
	members []span // members of all open objects, innermost last
	opened  []int  // for each open object, the index in members where it begins, or ordered
	scratch []byte
}

// span is one member in Builder.B: `"name":value,`.
type span struct {
	name       string
	start, end int
}

// Open begins an object.
func (w *Builder) Open() {
	w.B = append(w.B, '{')
	w.opened = append(w.opened, len(w.members))
}

// ordered in Builder.opened marks an object whose members are added in order.
const ordered = -1

// OpenOrdered begins an object whose members the caller adds in order, each once, with names
// that need no escapes. The Builder does not check that. OpenOrdered saves work in Name and
// Close (BenchmarkEventBody).
func (w *Builder) OpenOrdered() {
	w.B = append(w.B, '{')
	w.opened = append(w.opened, ordered)
}

// Name begins a member. The caller appends its value to w.B before the next call.
func (w *Builder) Name(name string) {
	if w.opened[len(w.opened)-1] == ordered {
		if w.B[len(w.B)-1] != '{' {
			w.B = append(w.B, ',')
		}
		w.B = append(append(append(w.B, '"'), name...), '"', ':')
		return
	}
	w.endMember()
	w.members = append(w.members, span{name: name, start: len(w.B)})
	w.B = AppendString(w.B, []byte(name))
	w.B = append(w.B, ':')
}

// endMember adds a comma after the previous member, if there is one.
func (w *Builder) endMember() {
	if len(w.members) > w.opened[len(w.opened)-1] {
		w.B = append(w.B, ',')
		w.members[len(w.members)-1].end = len(w.B)
	}
}

// Close ends the innermost open object. It panics if two members have the same name.
func (w *Builder) Close() {
	first := w.opened[len(w.opened)-1]
	if first == ordered {
		w.B = append(w.B, '}')
		w.opened = w.opened[:len(w.opened)-1]
		return
	}
	w.endMember()
	members := w.members[first:]
	byName := func(a, b span) int { return strings.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(members, byName) {
		start := members[0].start
		slices.SortFunc(members, byName)
		w.scratch = append(w.scratch[:0], w.B[start:]...)
		w.B = w.B[:start]
		for _, m := range members {
			w.B = append(w.B, w.scratch[m.start-start:m.end-start]...)
		}
	}
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name {
			// No reader would accept an event with duplicate members, so it must never be
			// written.
			panic("pyjson: two members named " + members[i].name)
		}
	}
	if len(members) > 0 {
		w.B = w.B[:len(w.B)-1]
	}
	w.B = append(w.B, '}')
	w.members, w.opened = w.members[:first], w.opened[:len(w.opened)-1]
}

// Text adds a string; nil adds nothing.
func (w *Builder) Text(name string, value []byte) {
	if value != nil {
		w.Name(name)
		w.B = AppendString(w.B, value)
	}
}

// Texts adds an array of strings.
func (w *Builder) Texts(name string, list [][]byte) {
	w.Name(name)
	w.B = append(w.B, '[')
	for i, text := range list {
		w.Comma(i)
		w.B = AppendString(w.B, text)
	}
	w.B = append(w.B, ']')
}

// Nullable adds a string, or null for nil.
func (w *Builder) Nullable(name string, value []byte) {
	if value == nil {
		w.Raw(name, []byte("null"))
		return
	}
	w.Text(name, value)
}

// Plain adds a string that needs no escapes, such as a hash, or null for nil.
func (w *Builder) Plain(name string, value []byte) {
	w.Name(name)
	if value == nil {
		w.B = append(w.B, "null"...)
		return
	}
	w.B = append(append(append(w.B, '"'), value...), '"')
}

// Raw adds a value that is already canonical JSON; nil adds nothing.
func (w *Builder) Raw(name string, value []byte) {
	if value != nil {
		w.Name(name)
		w.B = append(w.B, value...)
	}
}

// Value adds a parsed value. It adds nothing for null or an absent value.
func (w *Builder) Value(name string, v Value) {
	if v.Given() {
		w.Name(name)
		w.B = v.AppendCanonical(w.B, Compact)
	}
}

// Integer adds an integer.
func (w *Builder) Integer(name string, value int) {
	w.Name(name)
	w.B = strconv.AppendInt(w.B, int64(value), 10)
}

// Uint adds an integer that is not negative.
func (w *Builder) Uint(name string, value uint64) {
	w.Name(name)
	w.B = strconv.AppendUint(w.B, value, 10)
}

// Digest adds a hash in lower-case hexadecimal.
func (w *Builder) Digest(name string, h [32]byte) {
	w.Name(name)
	w.B = append(w.B, '"')
	w.B = hex.AppendEncode(w.B, h[:])
	w.B = append(w.B, '"')
}

// Comma separates array elements. i is the index of the element that follows.
func (w *Builder) Comma(i int) {
	if i > 0 {
		w.B = append(w.B, ',')
	}
}

// Scratch returns the size, in bytes, of the builder's memory other than B.
func (w *Builder) Scratch() int { return cap(w.scratch) }

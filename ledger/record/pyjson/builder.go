package pyjson

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Builder writes compact canonical JSON objects (spec: Canonical JSON). Members may be added in any
// order: Close sorts them. The zero Builder is ready to use.
type Builder struct {
	B       []byte // what has been written so far; callers may append values to it after BeginMember
	members []span // members of all open objects that need sorting, innermost object last
	opened  []int  // for each open object, the index of its first member in members, or ordered
	scratch []byte
}

// span is the position of one member, `"name":value,`, in Builder.B.
type span struct {
	name       string
	start, end int
}

// Open begins an object.
func (w *Builder) Open() {
	w.B = append(w.B, '{')
	w.opened = append(w.opened, len(w.members))
}

// ordered stands in Builder.opened for an object that OpenOrdered began.
const ordered = -1

// OpenOrdered begins an object whose members the caller adds in order, each once, and whose names
// need no escapes. The Builder does not check this. OpenOrdered makes BeginMember and Close cheaper
// (BenchmarkEventBody).
func (w *Builder) OpenOrdered() {
	w.B = append(w.B, '{')
	w.opened = append(w.opened, ordered)
}

// BeginMember begins a member. The caller must append the value to w.B before it calls another method.
func (w *Builder) BeginMember(name string) {
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

// endMember ends the previous member of the innermost object, if there is one, with a comma.
func (w *Builder) endMember() {
	if len(w.members) > w.opened[len(w.opened)-1] {
		w.B = append(w.B, ',')
		w.members[len(w.members)-1].end = len(w.B)
	}
}

// Close ends the innermost open object. It panics if two members have the same name, unless
// OpenOrdered began the object.
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
			// Readers refuse an event with duplicate member names, so it must never be written.
			panic("pyjson: two members named " + members[i].name)
		}
	}
	if len(members) > 0 {
		w.B = w.B[:len(w.B)-1]
	}
	w.B = append(w.B, '}')
	w.members, w.opened = w.members[:first], w.opened[:len(w.opened)-1]
}

// Text adds a string. A nil value adds nothing.
func (w *Builder) Text(name string, value []byte) {
	if value != nil {
		w.BeginMember(name)
		w.B = AppendString(w.B, value)
	}
}

// Texts adds an array of strings; a nil list adds an empty array.
func (w *Builder) Texts(name string, list [][]byte) {
	w.BeginMember(name)
	w.B = append(w.B, '[')
	for i, text := range list {
		w.Comma(i)
		w.B = AppendString(w.B, text)
	}
	w.B = append(w.B, ']')
}

// NullableText adds a string. A nil value adds null.
func (w *Builder) NullableText(name string, value []byte) {
	if value == nil {
		w.Raw(name, []byte("null"))
		return
	}
	w.Text(name, value)
}

// UnescapedText adds a string that needs no escapes, such as a hash. A nil value adds null.
func (w *Builder) UnescapedText(name string, value []byte) {
	w.BeginMember(name)
	if value == nil {
		w.B = append(w.B, "null"...)
		return
	}
	w.B = append(append(append(w.B, '"'), value...), '"')
}

// Raw adds a value that is already in canonical JSON. A nil value adds nothing.
func (w *Builder) Raw(name string, value []byte) {
	if value != nil {
		w.BeginMember(name)
		w.B = append(w.B, value...)
	}
}

// Value adds a parsed value. Null and the absent Value add nothing.
func (w *Builder) Value(name string, v Value) {
	if v.IsGiven() {
		w.BeginMember(name)
		w.B = v.AppendCanonical(w.B, Compact)
	}
}

// Integer adds an integer that may be negative.
func (w *Builder) Integer(name string, value int) {
	w.BeginMember(name)
	w.B = strconv.AppendInt(w.B, int64(value), 10)
}

// Uint adds an integer that is not negative.
func (w *Builder) Uint(name string, value uint64) {
	w.BeginMember(name)
	w.B = strconv.AppendUint(w.B, value, 10)
}

// Digest adds a hash, in lower-case hexadecimal digits.
func (w *Builder) Digest(name string, h [32]byte) {
	w.BeginMember(name)
	w.B = append(w.B, '"')
	w.B = hex.AppendEncode(w.B, h[:])
	w.B = append(w.B, '"')
}

// Comma writes a comma before each element of an array except the first. i is the index of the
// element that follows.
func (w *Builder) Comma(i int) {
	if i > 0 {
		w.B = append(w.B, ',')
	}
}

// ScratchBytes returns the size, in bytes, of the memory that the Builder keeps for sorting.
func (w *Builder) ScratchBytes() int { return cap(w.scratch) }

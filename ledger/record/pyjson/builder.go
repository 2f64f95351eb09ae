package pyjson

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Builder writes compact canonical JSON objects (spec: Canonical JSON). Members may be added in any
// order: EndObject sorts them. The zero Builder is ready to use.
type Builder struct {
	Buf     []byte // output so far; after BeginMember, callers may append the value to it
	members []span // members that EndObject must sort, from the outermost open object to the innermost
	opened  []int  // for each open object, the index of its first member in members, or ordered
	scratch []byte
}

// span is the position of one member, `"name":value,`, in Builder.Buf.
type span struct {
	name       string
	start, end int
}

// BeginObject begins an object.
func (w *Builder) BeginObject() {
	w.Buf = append(w.Buf, '{')
	w.opened = append(w.opened, len(w.members))
}

// ordered marks an object in Builder.opened that was begun with BeginSortedObject.
const ordered = -1

// BeginSortedObject is like BeginObject, but leaves the sorting of members to the caller. The
// caller must add them in sorted order and without duplicates, and their names must need no
// escapes. The Builder does not check this, which makes BeginMember and EndObject cheaper
// (BenchmarkEventBody).
func (w *Builder) BeginSortedObject() {
	w.Buf = append(w.Buf, '{')
	w.opened = append(w.opened, ordered)
}

// BeginMember writes the name of a member and the colon after it. The caller must append the value
// to w.Buf before it calls another method.
func (w *Builder) BeginMember(name string) {
	if w.opened[len(w.opened)-1] == ordered {
		if w.Buf[len(w.Buf)-1] != '{' {
			w.Buf = append(w.Buf, ',')
		}
		w.Buf = append(append(append(w.Buf, '"'), name...), '"', ':')
		return
	}
	w.endMember()
	w.members = append(w.members, span{name: name, start: len(w.Buf)})
	w.Buf = AppendString(w.Buf, []byte(name))
	w.Buf = append(w.Buf, ':')
}

// endMember writes a comma after the previous member of the innermost object, if there is one.
func (w *Builder) endMember() {
	if len(w.members) > w.opened[len(w.opened)-1] {
		w.Buf = append(w.Buf, ',')
		w.members[len(w.members)-1].end = len(w.Buf)
	}
}

// EndObject ends the innermost open object. It panics if two members have the same name, unless the
// object was begun with BeginSortedObject.
func (w *Builder) EndObject() {
	first := w.opened[len(w.opened)-1]
	if first == ordered {
		w.Buf = append(w.Buf, '}')
		w.opened = w.opened[:len(w.opened)-1]
		return
	}
	w.endMember()
	members := w.members[first:]
	byName := func(a, b span) int { return strings.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(members, byName) {
		start := members[0].start
		slices.SortFunc(members, byName)
		w.scratch = append(w.scratch[:0], w.Buf[start:]...)
		w.Buf = w.Buf[:start]
		for _, m := range members {
			w.Buf = append(w.Buf, w.scratch[m.start-start:m.end-start]...)
		}
	}
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name {
			// Readers refuse an event with duplicate member names, so it must never be written.
			panic("pyjson: two members named " + members[i].name)
		}
	}
	if len(members) > 0 {
		w.Buf = w.Buf[:len(w.Buf)-1]
	}
	w.Buf = append(w.Buf, '}')
	w.members, w.opened = w.members[:first], w.opened[:len(w.opened)-1]
}

// AddText adds a member with a string value. If value is nil, it adds nothing.
func (w *Builder) AddText(name string, value []byte) {
	if value != nil {
		w.BeginMember(name)
		w.Buf = AppendString(w.Buf, value)
	}
}

// AddTexts adds a member with an array of strings as its value. If list is nil, the array is empty.
func (w *Builder) AddTexts(name string, list [][]byte) {
	w.BeginMember(name)
	w.Buf = append(w.Buf, '[')
	for i, text := range list {
		w.WriteComma(i)
		w.Buf = AppendString(w.Buf, text)
	}
	w.Buf = append(w.Buf, ']')
}

// AddNullableText adds a member with a string value, or with the value null if value is nil.
func (w *Builder) AddNullableText(name string, value []byte) {
	if value == nil {
		w.AddRaw(name, []byte("null"))
		return
	}
	w.AddText(name, value)
}

// AddUnescapedText adds a member with a string value that needs no escapes, such as a hash. It
// copies the value without escaping it. If value is nil, the member's value is null.
func (w *Builder) AddUnescapedText(name string, value []byte) {
	w.BeginMember(name)
	if value == nil {
		w.Buf = append(w.Buf, "null"...)
		return
	}
	w.Buf = append(append(append(w.Buf, '"'), value...), '"')
}

// AddRaw adds a member whose value is already canonical JSON. If value is nil, it adds nothing.
func (w *Builder) AddRaw(name string, value []byte) {
	if value != nil {
		w.BeginMember(name)
		w.Buf = append(w.Buf, value...)
	}
}

// AddValue adds a member with the given parsed value. If v is null or absent, it adds nothing.
func (w *Builder) AddValue(name string, v Value) {
	if v.IsGiven() {
		w.BeginMember(name)
		w.Buf = v.AppendCanonical(w.Buf, CompactForm)
	}
}

// AddInt adds a member with an integer value, which may be negative.
func (w *Builder) AddInt(name string, value int) {
	w.BeginMember(name)
	w.Buf = strconv.AppendInt(w.Buf, int64(value), 10)
}

// AddUint adds a member with a nonnegative integer value.
func (w *Builder) AddUint(name string, value uint64) {
	w.BeginMember(name)
	w.Buf = strconv.AppendUint(w.Buf, value, 10)
}

// AddDigest adds a member whose value is a hash in lower-case hexadecimal.
func (w *Builder) AddDigest(name string, h [32]byte) {
	w.BeginMember(name)
	w.Buf = append(w.Buf, '"')
	w.Buf = hex.AppendEncode(w.Buf, h[:])
	w.Buf = append(w.Buf, '"')
}

// WriteComma writes the comma before element i of an array. It writes nothing before element 0.
func (w *Builder) WriteComma(i int) {
	if i > 0 {
		w.Buf = append(w.Buf, ',')
	}
}

// ScratchSize returns the size, in bytes, of the memory that the Builder keeps for sorting.
func (w *Builder) ScratchSize() int { return cap(w.scratch) }

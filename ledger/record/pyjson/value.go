package pyjson

import "iter"

// Value is one value of a Document. The zero Value is the absent value.
type Value struct {
	doc   *Document
	index uint32 // index of the value's node
}

// Kind returns the kind of v, which is Absent for the zero Value.
func (v Value) Kind() Kind {
	if v.doc == nil {
		return Absent
	}
	return v.doc.nodes[v.index].kind
}

// IsGiven reports whether v is present and not null.
func (v Value) IsGiven() bool { return v.Kind() > Null }

// Raw returns the bytes of v as they appear in the source, or nil if v is absent.
func (v Value) Raw() []byte {
	if v.doc == nil {
		return nil
	}
	n := &v.doc.nodes[v.index]
	return v.doc.src[n.start:n.end:n.end]
}

// Text returns the decoded text of v in WTF-8, or nil if v is not a string. The text aliases the
// source or the Document.
func (v Value) Text() []byte {
	if v.Kind() != String {
		return nil
	}
	return v.doc.textOf(v.index)
}

// Len returns the number of members if v is an object, the number of elements if v is an array, and
// 0 otherwise.
func (v Value) Len() int {
	if v.Kind() < Array {
		return 0
	}
	return int(v.doc.nodes[v.index].size)
}

// Member returns the member of v with the given name, or the zero Value if there is none or v is
// not an object. It searches the members one by one, so it takes time linear in their number.
func (v Value) Member(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	d, end := v.doc, v.doc.next(v.index)
	for i := v.index + 1; i < end; i = d.next(i + 1) {
		n := &d.nodes[i]
		if n.flags&escaped == 0 && int(n.end-n.start) != len(`""`)+len(name) {
			continue // most names are ruled out by their length
		}
		if string(d.textOf(i)) == name {
			return Value{d, i + 1}
		}
	}
	return Value{}
}

// Members yields the members of v in source order, each as its name (a String) and its value. It
// yields nothing if v is not an object.
func (v Value) Members() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		if v.Kind() != Object {
			return
		}
		d, end := v.doc, v.doc.next(v.index)
		for i := v.index + 1; i < end; i = d.next(i + 1) {
			if !yield(Value{d, i}, Value{d, i + 1}) {
				return
			}
		}
	}
}

// SortedMembers is like Members, but yields the members sorted by the code points of their names.
func (v Value) SortedMembers() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		if v.Kind() != Object {
			return
		}
		nodes := v.doc.nodes
		for i := nodes[v.index].order; i != 0; i = nodes[i].order {
			if !yield(Value{v.doc, i}, Value{v.doc, i + 1}) {
				return
			}
		}
	}
}

// Elements yields the elements of v. It yields nothing if v is not an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		d, end := v.doc, v.doc.next(v.index)
		for i := v.index + 1; i < end; i = d.next(i) {
			if !yield(Value{d, i}) {
				return
			}
		}
	}
}

// Float returns the double that is nearest to v. As in CPython's float(v), the integer -0 becomes
// 0.0, and the float -0.0 keeps its sign. Float returns false if v is not a number, or if v is an
// Integer outside the range of a double.
func (v Value) Float() (float64, bool) {
	kind := v.Kind()
	if kind != Integer && kind != Float {
		return 0, false
	}
	f, ok := parseFloat(v.Raw())
	if kind == Integer && f == 0 {
		return 0, ok
	}
	return f, ok
}

// AppendInteger appends an Integer in plain decimal, writing "-0" as "0". It returns false if v is
// not an Integer.
func (v Value) AppendInteger(dst []byte) ([]byte, bool) {
	if v.Kind() != Integer {
		return dst, false
	}
	return v.AppendCanonical(dst, CompactForm), true
}

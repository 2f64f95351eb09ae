package pyjson

import (
	"math"
	"unicode/utf8"
)

// Document is a parsed JSON source text. It stores a flat tape with one node for each value and
// each member name, in source order. The zero Document is ready to use. A Document can be reused:
// after a few documents, parsing no longer allocates memory.
//
// Only one goroutine may parse into a Document at a time. After that, several may read it. Values
// and the bytes that they return are valid until the next call to Parse, ParseLimited, or Reset.
type Document struct {
	src     []byte   // owned by the caller
	nodes   []node   // the tape; nodes[0] is the root
	text    []byte   // decoded text of the strings with escapes
	members []member // scratch memory for sortMembers
	limit   int      // maximum number of nodes
	lone    bool     // whether any string has a lone surrogate
}

// node is one value or member name.
type node struct {
	start, end uint32 // the node's bytes in Document.src
	// For a container, link is the index of the node after its last descendant, or 0 while the
	// container is open. For a string with escapes, link is the position of its text in
	// Document.text.
	link uint32
	// size is the number of members or elements of a container, or the length of the text of a
	// string with escapes.
	size uint32
	// order links the members of an object, sorted by name. For an object, it is the index of the
	// first name; for a name, it is the index of the next name. 0 ends the list, because no name
	// has index 0.
	order uint32
	kind  Kind
	flags flags
}

// flags are properties of a node that the scanner determines.
type flags uint8

const (
	verbatim flags = 1 << iota // scalar whose canonical form equals its source
	escaped                    // string whose text is in Document.text
	plain                      // string that has escapes in the source, but needs none in canonical form
	lone                       // string that has a lone surrogate
)

// retained is the size, in bytes, of the largest buffer that Reset keeps.
const (
	retained    = 1 << 20
	nodeBytes   = 24 // size of a node in bytes
	memberBytes = 16 // size of a member in bytes
)

// Parse parses src, which must not change while d is in use. It returns a *SyntaxError if src must
// be refused (spec: Refused JSON). src must be a single JSON value in valid UTF-8. It must not
// repeat a member name, contain a float outside the range of a double, or exceed the limits of this
// package. After an error, d has no value.
func (d *Document) Parse(src []byte) error { return d.ParseLimited(src, math.MaxInt) }

// ParseLimited is like Parse, but returns an error if the total number of values and member names
// in src exceeds limit, because their nodes can need much more memory than src itself.
func (d *Document) ParseLimited(src []byte, limit int) error {
	d.clear()
	d.limit = limit
	if err := d.parse(src); err != nil {
		d.clear()
		return err
	}
	return nil
}

func (d *Document) parse(src []byte) error {
	if len(src) > MaxSourceBytes {
		return &SyntaxError{Offset: MaxSourceBytes, Msg: "document too large"}
	}
	if !utf8.Valid(src) {
		return &SyntaxError{Offset: firstInvalid(src), Msg: "invalid UTF-8"}
	}
	d.src = src
	pos, err := d.value(skipSpace(src, 0), 0)
	if err != nil {
		return err
	}
	if pos = skipSpace(src, pos); pos < len(src) {
		return fail(pos, "unexpected data after the document")
	}
	return nil
}

// Reset releases the source, along with any large buffers, so that a pool of Documents stays small.
func (d *Document) Reset() {
	d.clear()
	if cap(d.nodes)*nodeBytes > retained {
		d.nodes = nil
	}
	if cap(d.text) > retained {
		d.text = nil
	}
	if cap(d.members)*memberBytes > retained {
		d.members = nil
	}
}

func (d *Document) clear() {
	d.src, d.nodes, d.text, d.lone = nil, d.nodes[:0], d.text[:0], false
}

// Root returns the value of the document, or the absent Value if nothing has been parsed.
func (d *Document) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{d, 0}
}

// textOf returns the text of the string at index i.
func (d *Document) textOf(i uint32) []byte {
	n := &d.nodes[i]
	if n.flags&escaped != 0 {
		return d.text[n.link : n.link+n.size : n.link+n.size]
	}
	return d.src[n.start+1 : n.end-1 : n.end-1]
}

// next returns the index of the first node after the value at index i and all of its descendants.
func (d *Document) next(i uint32) uint32 {
	if n := &d.nodes[i]; n.kind >= Array {
		return n.link
	}
	return i + 1
}

// firstInvalid returns the offset of the first byte of src that is not valid UTF-8, or len(src) if
// there is none.
func firstInvalid(src []byte) int {
	pos := 0
	for pos < len(src) {
		r, size := utf8.DecodeRune(src[pos:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		pos += size
	}
	return pos
}

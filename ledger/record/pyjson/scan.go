package pyjson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// The scanning methods in this file scan one JSON construct at pos and return the position after
// it. depth is the number of arrays and objects that are open at pos.

func (d *Document) value(pos, depth int) (int, error) {
	if pos == len(d.src) {
		return 0, fail(pos, unexpectedEnd)
	}
	if len(d.nodes) >= d.limit {
		return 0, fail(pos, fmt.Sprintf("document has more than %d values and member names", d.limit))
	}
	if len(d.nodes) == cap(d.nodes) && len(d.nodes) >= denseNodes {
		d.growTape(pos)
	}
	switch c := d.src[pos]; {
	case c == '"':
		return d.string(pos)
	case c == '{':
		return d.object(pos, depth+1)
	case c == '[':
		return d.array(pos, depth+1)
	case c == 'n':
		return d.literal(pos, "null", Null)
	case c == 't':
		return d.literal(pos, "true", True)
	case c == 'f':
		return d.literal(pos, "false", False)
	case c == '-' || isDigit(c):
		return d.number(pos)
	case c == 0xEF && bytes.HasPrefix(d.src[pos:], []byte("\uFEFF")):
		return 0, fail(pos, "unexpected byte order mark")
	}
	return 0, fail(pos, "expected a value")
}

// denseNodes is the minimum number of nodes for which growTape, not append, decides how much the
// tape grows. If a long tape grew only by append, it would allocate five times its own size in
// total.
const denseNodes = 4096

// growTape makes room for the remaining nodes. It estimates their number from the part of the
// source before pos, and at most doubles the tape.
func (d *Document) growTape(pos int) {
	n := len(d.nodes)
	left := int(float64(n) / float64(pos) * float64(len(d.src)-pos) * 1.05)
	d.nodes = slices.Grow(d.nodes, min(max(left, n/8), n, max(d.limit-n, 1)))
}

func (d *Document) literal(pos int, word string, kind Kind) (int, error) {
	end := pos + len(word)
	if end > len(d.src) || string(d.src[pos:end]) != word {
		return 0, fail(pos, "expected a value")
	}
	d.nodes = append(d.nodes, node{start: uint32(pos), end: uint32(end), kind: kind, flags: verbatim})
	return end, nil
}

func (d *Document) array(pos, depth int) (int, error) {
	self, err := d.open(Array, pos, depth)
	if err != nil {
		return 0, err
	}
	if pos = skipSpace(d.src, pos+1); d.at(pos) == ']' {
		return d.close(self, pos, 0), nil
	}
	for count := uint32(1); ; count++ {
		if pos, err = d.value(pos, depth); err != nil {
			return 0, err
		}
		pos = skipSpace(d.src, pos)
		switch d.at(pos) {
		case ',':
			pos = skipSpace(d.src, pos+1)
		case ']':
			return d.close(self, pos, count), nil
		default:
			return 0, fail(pos, "expected ',' or ']'")
		}
	}
}

func (d *Document) object(pos, depth int) (int, error) {
	self, err := d.open(Object, pos, depth)
	if err != nil {
		return 0, err
	}
	if pos = skipSpace(d.src, pos+1); d.at(pos) == '}' {
		return d.close(self, pos, 0), nil
	}
	sorted := true
	last := self // the node whose order field must be set to the index of the next name
	for count := uint32(1); ; count++ {
		name := uint32(len(d.nodes))
		if pos, err = d.name(pos); err != nil {
			return 0, err
		}
		if sorted && last != self {
			order := bytes.Compare(d.textOf(last), d.textOf(name))
			if order == 0 {
				return 0, d.duplicate(name)
			}
			sorted = order < 0
		}
		d.nodes[last].order, last = name, name
		if pos, err = d.value(pos, depth); err != nil {
			return 0, err
		}
		pos = skipSpace(d.src, pos)
		switch d.at(pos) {
		case ',':
			pos = skipSpace(d.src, pos+1)
		case '}':
			if !sorted {
				if err := d.sortMembers(self, count); err != nil {
					return 0, err
				}
			}
			return d.close(self, pos, count), nil
		default:
			return 0, fail(pos, "expected ',' or '}'")
		}
	}
}

// name scans a member name and the colon after it, and returns the position of the value.
func (d *Document) name(pos int) (int, error) {
	if d.at(pos) != '"' {
		return 0, fail(pos, "expected a member name")
	}
	pos, err := d.string(pos)
	if err != nil {
		return 0, err
	}
	if pos = skipSpace(d.src, pos); d.at(pos) != ':' {
		return 0, fail(pos, "expected ':'")
	}
	return skipSpace(d.src, pos+1), nil
}

func (d *Document) open(kind Kind, pos, depth int) (uint32, error) {
	if depth > MaxDepth {
		return 0, d.failWithin(pos, "nested too deeply")
	}
	self := uint32(len(d.nodes))
	d.nodes = append(d.nodes, node{start: uint32(pos), kind: kind})
	return self, nil
}

// close completes the array or object with node index self and count elements or members. It
// returns the position after the closing bracket, which is at pos.
func (d *Document) close(self uint32, pos int, count uint32) int {
	n := &d.nodes[self]
	n.end, n.link, n.size = uint32(pos+1), uint32(len(d.nodes)), count
	return pos + 1
}

// member is a member name that is to be sorted. prefix contains the first eight bytes of its text,
// which are enough for most comparisons.
type member struct {
	prefix uint64
	name   uint32 // index of the name's node
}

// sortMembers links the members of the object self in the order of their names. When it is called,
// the object's count members must be linked in source order. Sorting by bytes sorts by code point,
// because the names are in WTF-8. sortMembers returns an error if a name is repeated.
func (d *Document) sortMembers(self, count uint32) error {
	d.members = slices.Grow(d.members[:0], int(count))
	for name := d.nodes[self].order; name != 0; name = d.nodes[name].order {
		d.members = append(d.members, member{prefix(d.textOf(name)), name})
	}
	slices.SortFunc(d.members, func(a, b member) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		// Keep equal names in source order, so that the error names the later one.
		return cmp.Or(bytes.Compare(d.textOf(a.name), d.textOf(b.name)), cmp.Compare(a.name, b.name))
	})
	last := self
	for i, m := range d.members {
		if i > 0 && m.prefix == d.members[i-1].prefix && bytes.Equal(d.textOf(last), d.textOf(m.name)) {
			return d.duplicate(m.name)
		}
		d.nodes[last].order, last = m.name, m.name
	}
	d.nodes[last].order = 0
	return nil
}

func prefix(text []byte) uint64 {
	if len(text) >= 8 {
		return binary.BigEndian.Uint64(text)
	}
	var padded [8]byte
	copy(padded[:], text)
	return binary.BigEndian.Uint64(padded[:])
}

// at returns the byte at pos, or 0 at the end of the source. The result is unambiguous, because
// valid JSON contains no zero bytes.
func (d *Document) at(pos int) byte {
	if pos < len(d.src) {
		return d.src[pos]
	}
	return 0
}

func skipSpace(src []byte, pos int) int {
	for pos < len(src) && src[pos] <= ' ' && (src[pos] == ' ' || src[pos] == '\n' || src[pos] == '\t' || src[pos] == '\r') {
		pos++
	}
	return pos
}

func isDigit(c byte) bool { return c-'0' < 10 }

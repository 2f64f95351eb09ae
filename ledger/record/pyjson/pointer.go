package pyjson

import (
	"strconv"
	"unicode/utf8"
)

// AppendPointerToken appends one reference token to a JSON pointer (RFC 6901). Because pointers appear
// in error messages, bytes that are not valid UTF-8 are replaced with U+FFFD: once per lone
// surrogate and once per remaining invalid byte.
func AppendPointerToken(dst []byte, token []byte) []byte {
	dst = append(dst, '/')
	for len(token) > 0 {
		size := 1
		switch c := token[0]; {
		case c == '~':
			dst = append(dst, "~0"...)
		case c == '/':
			dst = append(dst, "~1"...)
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		case surrogateAt(token):
			dst, size = utf8.AppendRune(dst, utf8.RuneError), 3
		default:
			var r rune
			r, size = utf8.DecodeRune(token)
			dst = utf8.AppendRune(dst, r)
		}
		token = token[size:]
	}
	return dst
}

// FindLoneSurrogate finds the first string in v that contains a lone surrogate and returns its JSON
// pointer relative to v. If the string is a member name, it returns the pointer of the object that
// contains the member.
func (v Value) FindLoneSurrogate() (pointer string, found bool) {
	if v.doc == nil || !v.doc.lone {
		return "", false
	}
	for i, end := v.index, v.doc.next(v.index); i < end; i++ {
		if v.doc.nodes[i].flags&lone != 0 {
			return string(v.doc.appendPath(nil, v.index, i)), true
		}
	}
	return "", false
}

// appendPath appends the JSON pointer of the node with index to, relative to the value with index
// from. The node must be inside the value or about to be appended to it.
func (d *Document) appendPath(dst []byte, from, to uint32) []byte {
	for from != to && d.nodes[from].kind >= Array {
		object := d.nodes[from].kind == Object
		child, position := from+1, 0
		for ; ; position++ {
			if object {
				if child == to {
					return dst // to is a name, or the object has no members yet, so the path ends at the object
				}
				child++
			}
			if child == to || !d.closed(child) || d.next(child) > to {
				break
			}
			child = d.next(child)
		}
		if object {
			dst = AppendPointerToken(dst, d.textOf(child-1))
		} else {
			dst = strconv.AppendInt(append(dst, '/'), int64(position), 10)
		}
		from = child
	}
	return dst
}

// closed reports whether the value at index i has been scanned completely.
func (d *Document) closed(i uint32) bool {
	return d.nodes[i].kind < Array || d.nodes[i].link != 0
}

// fail returns the error for source text that is not valid JSON.
func fail(pos int, msg string) error {
	return &SyntaxError{Offset: pos, Msg: msg}
}

// failWithin returns the error for a value that is valid JSON but is refused. The value begins at
// pos and must not have a node yet.
func (d *Document) failWithin(pos int, msg string) error {
	if len(d.nodes) == 0 {
		return fail(pos, msg)
	}
	pointer := d.appendPath(nil, 0, uint32(len(d.nodes)))
	return &SyntaxError{Offset: pos, Pointer: string(pointer), Msg: msg}
}

// duplicate returns the error for a repeated member name. name is the index of the second
// occurrence.
func (d *Document) duplicate(name uint32) error {
	pointer := d.appendPath(nil, 0, name)
	return &SyntaxError{Offset: int(d.nodes[name].start), Pointer: string(pointer), Msg: "duplicate member name"}
}

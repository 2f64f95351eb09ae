package pyjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// string scans the string whose opening quote is at start and returns the position after it.
func (d *Document) string(start int) (int, error) {
	pos := special(d.src, start+1)
	switch d.at(pos) {
	case '"':
		d.nodes = append(d.nodes, node{start: uint32(start), end: uint32(pos + 1), kind: String, flags: verbatim})
		return pos + 1, nil
	case '\\':
		return d.escapedString(start, pos)
	}
	return 0, badString(d.src, pos)
}

// escapedString is like string, but for a string whose first escape is at pos. It stores the
// decoded text in d.text.
func (d *Document) escapedString(start, pos int) (int, error) {
	n := node{start: uint32(start), link: uint32(len(d.text)), kind: String, flags: escaped | verbatim | plain}
	d.text = append(d.text, d.src[start+1:pos]...)
	for {
		switch d.at(pos) {
		case '"':
			n.end, n.size = uint32(pos+1), uint32(len(d.text))-n.link
			if n.flags&lone != 0 {
				d.lone = true
			}
			d.nodes = append(d.nodes, n)
			return pos + 1, nil
		case '\\':
			after, ok := d.escape(pos, &n)
			if !ok {
				return 0, fail(pos, "invalid escape")
			}
			pos = after
		default:
			if pos == len(d.src) || d.src[pos] < ' ' {
				return 0, badString(d.src, pos)
			}
			end := special(d.src, pos+1)
			d.text = append(d.text, d.src[pos:end]...)
			pos = end
		}
	}
}

// escape decodes the escape whose backslash is at pos and appends the result to d.text. It returns
// the position after the escape, or false if the escape is malformed. n is the node of the string
// that contains the escape.
func (d *Document) escape(pos int, n *node) (int, bool) {
	switch c := d.at(pos + 1); c {
	case 'u':
		return d.unicodeEscape(pos, n)
	case '/':
		n.flags &^= verbatim
		d.text = append(d.text, '/')
	default:
		decoded := shortEscapes[c]
		if decoded == 0 {
			return 0, false
		}
		n.flags &^= plain
		d.text = append(d.text, decoded)
	}
	return pos + 2, true
}

// unicodeEscape is like escape, but for an escape of the form \uXXXX. If two such escapes form a
// surrogate pair, it decodes both.
func (d *Document) unicodeEscape(pos int, n *node) (int, bool) {
	r, ok := hex4(d.src, pos+2)
	if !ok {
		return 0, false
	}
	pos += 6
	n.flags &^= verbatim
	if needsEscape(r) {
		n.flags &^= plain
	}
	if !isSurrogate(r) {
		d.text = utf8.AppendRune(d.text, r)
		return pos, true
	}
	if r < 0xDC00 && d.at(pos) == '\\' && d.at(pos+1) == 'u' {
		if low, ok := hex4(d.src, pos+2); ok && low >= 0xDC00 && low <= 0xDFFF {
			d.text = utf8.AppendRune(d.text, (r-0xD800)<<10+(low-0xDC00)+0x10000)
			return pos + 6, true
		}
	}
	n.flags |= lone
	d.text = appendRune(d.text, r)
	return pos, true
}

// shortEscapes maps the letter of each two-byte escape in the canonical form to the character it
// stands for, and all other bytes to 0.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func badString(src []byte, pos int) error {
	if pos == len(src) {
		return fail(pos, "unterminated string")
	}
	return fail(pos, "unescaped control character")
}

// hex4 parses the four hexadecimal digits at pos. It returns false if they are not valid.
func hex4(src []byte, pos int) (rune, bool) {
	if pos+4 > len(src) {
		return 0, false
	}
	b := src[pos : pos+4]
	r := int32(hexValues[b[0]])<<12 | int32(hexValues[b[1]])<<8 | int32(hexValues[b[2]])<<4 | int32(hexValues[b[3]])
	return r, r >= 0
}

// hexValues maps hexadecimal digits to their values, and all other bytes to -1.
var hexValues = func() (values [256]int8) {
	for c := range values {
		values[c] = -1
	}
	for i := range int8(10) {
		values['0'+i] = i
	}
	for i := range int8(6) {
		values['a'+i], values['A'+i] = 10+i, 10+i
	}
	return values
}()

// needsEscape reports whether canonical JSON escapes r.
func needsEscape(r rune) bool { return r < ' ' || r == '"' || r == '\\' }

// special returns the position of the first byte at or after pos that needs an escape, which is a
// quote, a backslash, or a control character. It returns len(src) if there is none.
func special(src []byte, pos int) int {
	for ; pos+8 <= len(src); pos += 8 {
		if found := specialBytes(binary.LittleEndian.Uint64(src[pos:])); found != 0 {
			return pos + bits.TrailingZeros64(found)/8
		}
	}
	for pos < len(src) && !needsEscape(rune(src[pos])) {
		pos++
	}
	return pos
}

// specialBytes returns a word in which the top bit of each byte that needs an escape is set. The
// bits for bytes after the first such byte may be wrong.
func specialBytes(word uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote := word ^ ones*'"'
	backslash := word ^ ones*'\\'
	return ((word-ones*' ')&^word | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops
}

package pyjson

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// HasLoneSurrogate reports whether text, which is in WTF-8, contains a surrogate and is therefore
// not valid UTF-8.
func HasLoneSurrogate(text []byte) bool {
	for {
		i := bytes.IndexByte(text, 0xED)
		if i < 0 || i+2 >= len(text) {
			return false
		}
		if surrogateAt(text[i:]) {
			return true
		}
		text = text[i+1:]
	}
}

// IsSpace reports whether Python's str.isspace is true for r.
func IsSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1C && r <= 0x1F
	case r < 0x1680:
		return r == 0x85 || r == 0xA0
	}
	return r >= 0x2000 && r <= 0x200A || r == 0x1680 || r == 0x2028 || r == 0x2029 || r == 0x202F || r == 0x205F || r == 0x3000
}

// Strip returns the result of Python's str.strip for text. The result aliases text.
func Strip(text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if !IsSpace(r) {
			break
		}
		text = text[size:]
	}
	for len(text) > 0 {
		r, size := utf8.DecodeLastRune(text)
		if !IsSpace(r) {
			break
		}
		text = text[:len(text)-size]
	}
	return text
}

// Lines yields the elements of Python's str.splitlines, which are the lines without their line
// breaks. There is no empty line after a final line break. The lines alias text.
func Lines(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := 0
		for i := 0; i < len(text); {
			size := lineEnd(text[i:])
			if size == 0 {
				i++
				continue
			}
			if !yield(text[start:i:i]) {
				return
			}
			i += size
			start = i
		}
		if start < len(text) {
			yield(text[start:])
		}
	}
}

// lineEnd returns the length of the line break at the start of text, or 0 if text does not start
// with one.
func lineEnd(text []byte) int {
	switch c := text[0]; {
	case c == '\r' && len(text) > 1 && text[1] == '\n':
		return 2
	case c >= '\n' && c <= '\r' || c >= 0x1C && c <= 0x1E:
		return 1
	case c == 0xC2 && len(text) > 1 && text[1] == 0x85: // U+0085
		return 2
	case c == 0xE2 && len(text) > 2 && text[1] == 0x80 && text[2]|1 == 0xA9: // U+2028, U+2029
		return 3
	}
	return 0
}

// Fields yields the elements of Python's str.split, which are the words between runs of whitespace.
// The words alias text.
func Fields(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := -1 // start of the current word
		for i := 0; i < len(text); {
			r, size := rune(text[i]), 1
			if r >= utf8.RuneSelf {
				r, size = utf8.DecodeRune(text[i:])
			}
			if space := IsSpace(r); space && start >= 0 {
				if !yield(text[start:i:i]) {
					return
				}
				start = -1
			} else if !space && start < 0 {
				start = i
			}
			i += size
		}
		if start >= 0 {
			yield(text[start:])
		}
	}
}

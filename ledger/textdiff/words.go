package textdiff

import (
	"iter"
	"unicode"
	"unicode/utf8"
)

// token is the byte range of a word or a mark in a text.
type token struct {
	start, end int
	begins     bool // whether Length.Words counts a word that begins here
}

// tokens yields the words and marks of a text (spec: Figures of texts). A word is a maximal
// sequence of letters, digits, and combining marks, including any apostrophes between two of these.
// In a script without spaces, each character is a word. Any other character that is not white space
// is a mark.
func tokens(text []byte) iter.Seq[token] {
	return func(yield func(token) bool) {
		afterSpace := true
		for at := 0; at < len(text); {
			class, size := classOf(text[at:])
			t := token{at, at + size, class == alone || class != space && afterSpace}
			at = t.end
			for class == inWord && at < len(text) {
				next, size := classOf(text[at:])
				if next == apostrophe && at+size < len(text) {
					var after int
					next, after = classOf(text[at+size:])
					size += after
				}
				if next != inWord {
					break
				}
				at += size
			}
			t.end, afterSpace = at, class == space
			if class != space && !yield(t) {
				return
			}
		}
	}
}

// Tokens yields the words and marks of text in order.
func Tokens(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for t := range tokens(text) {
			if !yield(text[t.start:t.end]) {
				return
			}
		}
	}
}

// class says how a character is treated when a text is split into words and marks.
type class uint8

const (
	space class = iota
	mark
	apostrophe
	inWord
	alone // each character is a word by itself
)

// withoutSpaces lists scripts in which words are not separated by spaces.
var withoutSpaces = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// classOf returns the class of the first character of text and its size in bytes. text must not be
// empty.
func classOf(text []byte) (class, int) {
	if b := text[0]; b < utf8.RuneSelf {
		return ofASCII[b], 1
	}
	r, size := utf8.DecodeRune(text)
	switch {
	case unicode.IsSpace(r):
		return space, size
	case r == '’':
		return apostrophe, size
	case unicode.In(r, withoutSpaces...):
		return alone, size
	case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		return inWord, size
	}
	return mark, size
}

var ofASCII = func() (classes [utf8.RuneSelf]class) {
	for b := range rune(utf8.RuneSelf) {
		switch {
		case unicode.IsSpace(b):
			classes[b] = space
		case b == '\'':
			classes[b] = apostrophe
		case unicode.IsLetter(b) || unicode.IsDigit(b):
			classes[b] = inWord
		default:
			classes[b] = mark
		}
	}
	return classes
}()

// isSpace reports whether b is ASCII white space, which is never part of a token.
func isSpace(b byte) bool { return b < utf8.RuneSelf && ofASCII[b] == space }

package pyjson

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// AppendNFC appends the result of Python's unicodedata.normalize("NFC", text). It copies lone
// surrogates unchanged.
//
// The package x/text does the work, except for long runs of combining characters: x/text splits
// those with U+034F (stream-safe text format), but CPython does not.
func AppendNFC(dst, text []byte) []byte {
	// IsNormal returns wrong results after bytes that are not UTF-8.
	if utf8.Valid(text) && norm.NFC.IsNormal(text) {
		return append(dst, text...)
	}
	// Normalisation makes a text at most three times as long (UAX 15, 12.1).
	dst = slices.Grow(dst, 3*len(text))
	done := 0 // text[:done] has been normalised
	for pos := 0; pos < len(text); {
		end, runes := segment(text, pos)
		if runes > longSegment {
			dst = appendShortNFC(dst, text[done:pos])
			dst = appendLongNFC(dst, text[pos:end])
			done = end
		} else if runes == 0 {
			dst = appendShortNFC(dst, text[done:pos])
			dst = append(dst, text[pos:end]...)
			done = end
		}
		pos = end
	}
	return appendShortNFC(dst, text[done:])
}

// longSegment is the maximum number of code points in a segment that is passed to x/text. The first
// code point of a segment decomposes into at most three combining characters, and each later one
// into at most two. Such a segment therefore stays below the 30 combining characters that x/text
// allows.
const longSegment = 12

// segment returns the end of the segment that begins at pos and the number of code points in it. A
// segment is a piece of text that cannot be composed with the text before or after it. If the bytes
// at pos are not valid UTF-8, the number of code points is 0.
func segment(text []byte, pos int) (end, runes int) {
	for end = pos; end < len(text); runes++ {
		if text[end] < utf8.RuneSelf {
			if runes > 0 {
				return end, runes
			}
			end++
			continue
		}
		r, size := utf8.DecodeRune(text[end:])
		if r == utf8.RuneError && size == 1 {
			if runes == 0 {
				end++
			}
			return end, runes
		}
		if runes > 0 && norm.NFC.Properties(text[end:]).BoundaryBefore() {
			return end, runes
		}
		end += size
	}
	return end, runes
}

// appendShortNFC appends the normal form of text, which must not contain long segments.
func appendShortNFC(dst, text []byte) []byte {
	// norm.NFC.Append would compose the text with the end of dst, so give it an empty slice.
	normal := norm.NFC.Append(dst[len(dst):len(dst):cap(dst)], text...)
	return append(dst, normal...)
}

// combining is a code point of a decomposed text, with its canonical combining class. A code point
// of class 0 is a starter.
type combining struct {
	r     rune
	class uint8
}

// appendLongNFC appends the normal form of text, which must be valid UTF-8. It follows the
// definition in UAX 15: it decomposes, orders, and composes the text.
func appendLongNFC(dst, text []byte) []byte {
	decomposed := decompose(text)
	for i := 0; i < len(decomposed); {
		end := i + 1
		for end < len(decomposed) && decomposed[i].class != 0 && decomposed[end].class != 0 {
			end++
		}
		slices.SortStableFunc(decomposed[i:end], func(a, b combining) int { return int(a.class) - int(b.class) })
		i = end
	}
	for _, c := range compose(decomposed) {
		dst = utf8.AppendRune(dst, c.r)
	}
	return dst
}

func decompose(text []byte) []combining {
	decomposed := make([]combining, 0, utf8.RuneCount(text)) // enough for most texts
	var buffer [utf8.UTFMax * 4]byte
	for len(text) > 0 {
		_, size := utf8.DecodeRune(text)
		// Decompose one code point at a time. In a longer text, x/text would split long sequences of
		// combining characters.
		full := norm.NFD.Append(buffer[:0], text[:size]...)
		for len(full) > 0 {
			r, size := utf8.DecodeRune(full)
			decomposed = append(decomposed, combining{r, norm.NFD.Properties(full).CCC()})
			full = full[size:]
		}
		text = text[size:]
	}
	return decomposed
}

// compose composes a decomposed text in place and returns the result. It combines each code point
// with the last starter, unless a code point of the same or a higher class is between them.
func compose(text []combining) []combining {
	composed := text[:0]
	starter := -1 // the last starter's index in composed
	for _, c := range text {
		if starter >= 0 {
			last := composed[len(composed)-1]
			adjacent := starter == len(composed)-1
			if adjacent || last.class < c.class {
				if r, ok := composePair(composed[starter].r, c.r); ok {
					composed[starter].r = r
					continue
				}
			}
		}
		if c.class == 0 {
			starter = len(composed)
		}
		composed = append(composed, c)
	}
	return composed
}

// composePair returns the code point that first and second compose to, or false if they do not
// compose.
func composePair(first, second rune) (rune, bool) {
	var pair, buffer [2 * utf8.UTFMax]byte
	text := utf8.AppendRune(utf8.AppendRune(pair[:0], first), second)
	composite := norm.NFC.Append(buffer[:0], text...)
	r, size := utf8.DecodeRune(composite)
	return r, size == len(composite) && !bytes.Equal(text, composite)
}

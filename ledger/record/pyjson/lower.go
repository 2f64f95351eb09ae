package pyjson

import (
	"unicode"
	"unicode/utf8"
)

// AppendLower appends the result of Python's str.lower for text. Each code point is converted on
// its own, with two exceptions: U+0130 becomes two code points, and a capital sigma at the end of a
// word becomes a final sigma.
func AppendLower(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError:
			dst = append(dst, text[i:i+size]...) // surrogates and U+FFFD stay unchanged
		case r == 'İ':
			dst = append(dst, "i\u0307"...)
		case r == 'Σ' && endsWord(text[:i], text[i+size:]):
			dst = append(dst, "ς"...)
		default:
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
		i += size
	}
	return dst
}

// endsWord reports whether a capital sigma between before and after meets Unicode's Final_Sigma
// condition. Ignoring Case_Ignorable code points, the last code point of before must be Cased, and
// the first code point of after must not be Cased. A code point with both properties is ignored.
func endsWord(before, after []byte) bool {
	for {
		r, size := utf8.DecodeLastRune(before)
		if size == 0 || !ignorable(r) {
			if !cased(r) {
				return false
			}
			break
		}
		before = before[:len(before)-size]
	}
	for {
		r, size := utf8.DecodeRune(after)
		if size == 0 || !ignorable(r) {
			return !cased(r)
		}
		after = after[size:]
	}
}

// cased reports whether r has the property Cased. It returns false for U+FFFD, which utf8 also
// returns for the bytes of a surrogate and at the end of the text.
func cased(r rune) bool {
	return unicode.In(r, unicode.Lower, unicode.Upper, unicode.Title, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// ignorable reports whether r has the property Case_Ignorable, which means that r has one of the
// general categories below or the Word_Break value MidLetter, MidNumLet, or Single_Quote.
func ignorable(r rune) bool {
	switch r {
	case '\'', '.', ':', 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024, 0x2027,
		0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A:
		return true
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

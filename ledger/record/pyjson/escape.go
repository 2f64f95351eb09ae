package pyjson

import (
	"fmt"
	"unicode/utf8"
)

// AppendUTF8String appends text, which must be WTF-8, as a JSON string. It escapes lone surrogates,
// so that the result is valid UTF-8. It returns false if text is not valid WTF-8.
func AppendUTF8String(dst, text []byte) ([]byte, bool) {
	dst = append(dst, '"')
	for len(text) > 0 {
		size := validPrefix(text)
		quoted := AppendString(nil, text[:size])
		dst = append(dst, quoted[1:len(quoted)-1]...)
		text = text[size:]
		if len(text) == 0 {
			break
		}
		if !surrogateAt(text) {
			return dst, false
		}
		dst = fmt.Appendf(dst, `\u%04x`, rune(text[0]&0x0F)<<12|rune(text[1]&0x3F)<<6|rune(text[2]&0x3F))
		text = text[3:]
	}
	return append(dst, '"'), true
}

// validPrefix returns the length of the longest prefix of text that is valid UTF-8.
func validPrefix(text []byte) int {
	if utf8.Valid(text) {
		return len(text)
	}
	return firstInvalid(text)
}

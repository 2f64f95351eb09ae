package pyjson

import "unicode/utf8"

func isSurrogate(r rune) bool { return r >= 0xD800 && r <= 0xDFFF }

// appendRune appends r, which may be a surrogate, encoded as WTF-8.
func appendRune(dst []byte, r rune) []byte {
	if isSurrogate(r) {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}

// surrogateAt reports whether text begins with the three-byte encoding of a surrogate.
func surrogateAt(text []byte) bool {
	return len(text) >= 3 && text[0] == 0xED && text[1] >= 0xA0 && text[1] <= 0xBF && text[2]&0xC0 == 0x80
}

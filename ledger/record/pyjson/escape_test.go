package pyjson

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEscapedTextIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		high := false // whether the previous code point is a high surrogate, which would combine with a low one
		for _, r := range rapid.SliceOf(rapid.OneOf(rapid.Int32Range(0, 0x10FFFF), rapid.Int32Range(0xD700, 0xE0FF))).Draw(t, "code points") {
			if high && r >= 0xDC00 && r <= 0xDFFF {
				continue
			}
			high = r >= 0xD800 && r <= 0xDBFF
			text = appendRune(text, r)
		}
		escaped, ok := AppendUTF8String([]byte("before"), text)
		require.True(t, ok)
		require.True(t, utf8.Valid(escaped))
		require.Equal(t, "before", string(escaped[:6]))
		var d Document
		require.NoError(t, d.Parse(escaped[6:]))
		require.Equal(t, string(text), string(d.Root().Text()))
		if utf8.Valid(text) {
			require.Equal(t, string(AppendString(nil, text)), string(escaped[6:]))
		}
	})
	for _, text := range []string{"\xff", "a\xc3", "\xed", "\xed\xa0", "\xed\xa0x", "ok \xf5\x80\x80\x80"} {
		_, ok := AppendUTF8String(nil, []byte(text))
		require.False(t, ok, "%q", text)
	}
}

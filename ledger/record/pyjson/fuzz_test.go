package pyjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

// refusals contains the reasons for which this package refuses documents that encoding/json
// accepts.
var refusals = []string{"duplicate member name", "nested too deeply", "integer has more than 4300 digits", "number out of range for a double"}

func FuzzParse(f *testing.F) {
	for _, source := range []string{
		`{"b":[1,-0,2.50,1e-7],"a":"\ud83c\udfb5\u00e9\/\n","":{"z":null,"y":true}}`,
		`["\ud800",{"\udfff":"x\ud83d"}]`,
		`{"a":1,"\u0061":2}`,
		` [ 0.8113668235199378 , 123456789012345678901234567890 , 1e400 ] `,
		"[[[[[[{\"x\":[]}]]]]]]",
		"\"\xed\xa0\x80\"",
		"\ufeff1",
		`{"a":1,}`,
	} {
		f.Add([]byte(source))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		var d Document
		before := bytes.Clone(source)
		err := d.Parse(source)
		require.Equal(t, before, source)
		if err != nil {
			checkRefusal(t, source, err)
			return
		}
		require.True(t, json.Valid(source))
		require.True(t, utf8.Valid(source))
		compact := d.Root().AppendCanonical(nil, CompactForm)
		spaced := d.Root().AppendCanonical(nil, SpacedForm)
		pointer, found := d.Root().FindLoneSurrogate()
		require.Equal(t, found, HasLoneSurrogate(compact))
		require.True(t, utf8.ValidString(pointer))
		if found {
			require.Error(t, d.Parse(compact), "a source must be UTF-8")
			return
		}
		require.True(t, utf8.Valid(compact))
		if !longNumber(source) {
			require.Equal(t, model{t, ",", ":"}.canonical(source), string(compact))
			require.Equal(t, model{t, ", ", ": "}.canonical(source), string(spaced))
		}
		for _, canonical := range [][]byte{compact, spaced} {
			require.NoError(t, d.Parse(canonical))
			require.Equal(t, compact, d.Root().AppendCanonical(nil, CompactForm))
			require.Equal(t, spaced, d.Root().AppendCanonical(nil, SpacedForm))
		}
	})
}

func checkRefusal(t *testing.T, source []byte, err error) {
	var syntax *SyntaxError
	require.True(t, errors.As(err, &syntax))
	require.GreaterOrEqual(t, syntax.Offset, 0)
	require.LessOrEqual(t, syntax.Offset, len(source))
	require.True(t, utf8.ValidString(syntax.Pointer))
	if utf8.Valid(source) && json.Valid(source) {
		require.Contains(t, refusals, syntax.Msg)
	}
}

// longNumber reports whether source may contain a number that strconv parses wrongly.
func longNumber(source []byte) bool {
	digits := 0
	for _, c := range source {
		if digits++; c != '.' && !isDigit(c) {
			digits = 0
		}
		if digits > 700 {
			return true
		}
	}
	return false
}

func FuzzText(f *testing.F) {
	for _, text := range []string{
		" The ΟΔΥΣΣΕΥΣ\x1c\u0085 İ ",
		"a\r\n\u2028b\xed\xa0\x80\x1e",
		"e\u0302\u0323\u1100\u1161\u11a8\u0958",
		"e" + strings.Repeat("\u0301\u0323", 20),
		"\xff\xe3\x81\xed\xa0",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		checkSpaces(t, text)
		checkLower(t, text)
		checkNFC(t, text)
		require.Equal(t, HasLoneSurrogate(text), hasLoneSurrogateModel(text))
		require.True(t, utf8.Valid(AppendPointerToken(nil, text)))
		require.Equal(t, before, text)
	})
}

func checkSpaces(t *testing.T, text []byte) {
	stripped := Strip(text)
	require.Equal(t, string(stripped), string(Strip(stripped)))
	require.Equal(t, strings.TrimFunc(string(text), IsSpace), string(stripped))
	require.Equal(t, bytes.FieldsFunc(text, IsSpace), slices.AppendSeq([][]byte{}, Fields(text)))

	var lines []byte
	for line := range Lines(text) {
		for i := range line {
			require.Zero(t, lineEnd(line[i:]))
		}
		lines = append(append(lines, line...), '\n')
	}
	ends := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\x1c", "\n", "\x1d", "\n", "\x1e", "\n",
		"\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(string(text))
	if !strings.HasSuffix(ends, "\n") && ends != "" {
		ends += "\n"
	}
	require.Equal(t, ends, string(lines))
}

func checkLower(t *testing.T, text []byte) {
	lowered := AppendLower(nil, text)
	require.Equal(t, utf8.Valid(text), utf8.Valid(lowered))
	require.Equal(t, string(lowered), string(AppendLower(nil, lowered)), "lowering is idempotent")
	if utf8.Valid(text) && !bytes.ContainsAny(text, "İΣ") {
		require.Equal(t, strings.ToLower(string(text)), string(lowered))
	}
}

func checkNFC(t *testing.T, text []byte) {
	normal := AppendNFC(nil, text)
	require.Equal(t, utf8.Valid(text), utf8.Valid(normal))
	require.Equal(t, string(normal), string(AppendNFC(nil, normal)))
	decomposed := appendNFDModel(nil, text)
	require.Equal(t, string(normal), string(AppendNFC(nil, decomposed)), "canonically equivalent texts have one form")
	if utf8.Valid(text) && len(text) < 30 { // x/text adds U+034F after 30 non-starters
		require.Equal(t, norm.NFC.String(string(text)), string(normal))
	}
}

// appendNFDModel decomposes each code point on its own, without reordering the result.
func appendNFDModel(dst, text []byte) []byte {
	for len(text) > 0 {
		_, size := utf8.DecodeRune(text)
		dst = append(dst, norm.NFD.Bytes(text[:size])...)
		text = text[size:]
	}
	return dst
}

// hasLoneSurrogateModel reports whether text contains the encoding of any surrogate.
func hasLoneSurrogateModel(text []byte) bool {
	for r := rune(0xD800); r <= 0xDFFF; r++ {
		if bytes.Contains(text, appendRune(nil, r)) {
			return true
		}
	}
	return false
}

package pyjson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

func TestHasLoneSurrogate(t *testing.T) {
	for text, want := range map[string]bool{
		"":                     false,
		"a\ud7ff\ue000🎵\ufffd": false,
		"a\xed\xa0\x80":        true,
		"\xed\xbf\xbfz":        true,
		"\xed\x9f\xbf":         false,
		"\xed\xa0":             false, // incomplete, so not WTF-8
	} {
		require.Equal(t, want, HasLoneSurrogate([]byte(text)), "%q", text)
	}
}

func TestIsSpace(t *testing.T) {
	var spaces []rune
	for r := rune(0); r <= 0x10FFFF; r++ {
		if IsSpace(r) {
			spaces = append(spaces, r)
		}
	}
	require.Equal(t, []rune{0x9, 0xA, 0xB, 0xC, 0xD, 0x1C, 0x1D, 0x1E, 0x1F, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005,
		0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}, spaces)
}

func TestStrip(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		" \x1c\u3000\u2029":                 "",
		"\u00a0 a b \u0085\x1f":             "a b",
		"\u200b a\u180e":                    "\u200b a\u180e",
		" \xed\xa0\x85 ":                    "\xed\xa0\x85",
		"\ufeff ":                           "\ufeff",
		"\u2028\xed\xa0\x80 x \xed\xb2\x85": "\xed\xa0\x80 x \xed\xb2\x85",
	} {
		require.Equal(t, want, string(Strip([]byte(text))), "%q", text)
	}
}

func TestLines(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		"a":                           {"a"},
		"\n":                          {""},
		"a\r\n\rb\n":                  {"a", "", "b"},
		"a\n\r\nb":                    {"a", "", "b"},
		"a\vb\fc\x1cd\x1de\x1ef":      {"a", "b", "c", "d", "e", "f"},
		"a\u0085b\u2028c\u2029":       {"a", "b", "c"},
		"a\x1fb\u00a0c\u2027d\u202ae": {"a\x1fb\u00a0c\u2027d\u202ae"},
		"\xed\xa0\x80\n\xe2\x80":      {"\xed\xa0\x80", "\xe2\x80"},
	} {
		var got []string
		for line := range Lines([]byte(text)) {
			got = append(got, string(line))
		}
		require.Equal(t, want, got, "%q", text)
	}
}

func TestFields(t *testing.T) {
	for text, want := range map[string][]string{
		"":                          nil,
		" \x1f\u3000":               nil,
		"a":                         {"a"},
		" a\u2003\x1c b\u200bc ":    {"a", "b\u200bc"},
		"\xed\xa0\x85 \xed\xa0\x80": {"\xed\xa0\x85", "\xed\xa0\x80"},
	} {
		var got []string
		for word := range Fields([]byte(text)) {
			got = append(got, string(word))
		}
		require.Equal(t, want, got, "%q", text)
	}
}

// TestEarlyStop checks that each iterator stops when the loop over it breaks.
func TestEarlyStop(t *testing.T) {
	for line := range Lines([]byte("a\nb")) {
		require.Equal(t, "a", string(line))
		break
	}
	for word := range Fields([]byte("a b")) {
		require.Equal(t, "a", string(word))
		break
	}
	root := parse(t, `{"a":[1,2],"b":0}`)
	for name, value := range root.Members() {
		require.Equal(t, "a", string(name.Text()))
		for element := range value.Elements() {
			require.Equal(t, "1", string(element.Raw()))
			break
		}
		break
	}
}

func TestAppendLower(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"The ÄÖ 1":             "the äö 1",
		"İI":                   "i\u0307i",
		"ẞ":                    "ß",
		"ΟΔΥΣΣΕΥΣ":             "οδυσσευς",
		"Σ":                    "σ",
		"ΑΣ Σ":                 "ας σ",
		"ΑΣ.":                  "ας.",
		"ΑΣ.Β":                 "ασ.β",
		"Α.Σ":                  "α.ς",
		".Σ":                   ".σ",
		"ΑΣ1Β":                 "ας1β",
		"Α\u0301Σ\u0301\u00ad": "α\u0301ς\u0301\u00ad",
		"ʰΣ":                   "ʰσ", // the first character is both cased and ignorable, so it is skipped
		"Α\xed\xa0\x80Σ":       "α\xed\xa0\x80σ",
		"ΑΣ\xed\xa0\x80":       "ας\xed\xa0\x80",
		"\ufffdA":              "\ufffda",
	} {
		require.Equal(t, want, string(AppendLower(nil, []byte(text))), "%q", text)
	}
	require.Equal(t, "Ασ", string(AppendLower([]byte("Α"), []byte("Σ"))), "the prefix neither changes nor affects the result")
}

func TestAppendNFC(t *testing.T) {
	marks := strings.Repeat("\u0301", 40)
	for text, want := range map[string]string{
		"":                                 "",
		"plain":                            "plain",
		"e\u0301":                          "é",
		"e\u0323\u0302":                    "ệ",
		"e\u0302\u0323":                    "ệ",
		"\u0958":                           "\u0915\u093c", // a composition exclusion
		"\u1100\u1161\u11a8":               "각",
		"가\u11a8\u11a8":                    "각\u11a8",
		"\u212a\u2126":                     "KΩ",
		"e" + marks:                        "é" + marks[2:],
		"e" + marks + "\u0323":             "ẹ\u0301" + marks[2:],
		"a" + marks + "e\u0301":            "á" + marks[2:] + "é",
		marks + "\u0323":                   "\u0323" + marks,
		"가" + strings.Repeat("\u11a8", 40): "각" + strings.Repeat("\u11a8", 39),
		"e\xed\xa0\x80\u0301":              "e\xed\xa0\x80\u0301",
		"e\u0301\xed\xa0\x80e\u0301":       "é\xed\xa0\x80é",
		"\xed\xa0\x80\u0341":               "\xed\xa0\x80\u0301",
		"\xf5\u0341":                       "\xf5\u0301",
		"e\u0301\xff\xe3\x81":              "é\xff\xe3\x81",
	} {
		require.Equal(t, want, string(AppendNFC(nil, []byte(text))), "%+q", text)
	}
	require.NotEqual(t, "é"+marks[2:], norm.NFC.String("e"+marks), "x/text alone gives another result")
	require.Equal(t, "e\u0301é", string(AppendNFC([]byte("e"), []byte("\u0301e\u0301"))), "the prefix does not change")
}

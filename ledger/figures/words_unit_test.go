package figures

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

func TestInstruction(t *testing.T) {
	for object, want := range map[string]string{
		`{"dataset":"a longer text than the others","instruction":"Name one."}`:                                      "Name one.",
		`{"prompt":"","question":"Who?"}`:                                                                            "Who?",
		`{"q":"Who keeps it?","seed":7}`:                                                                             "Who keeps it?",
		`{"messages":[{"role":"user","content":"One"},{"role":"assistant","content":"Two"}]}`:                        "One",
		`{"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"Parts."}]}]}`: "Parts.",
		`{"messages":"Not a list."}`:                                                                                 "Not a list.",
		`{"seed":7}`:                                                                                                 `{"seed":7}`,
		`[1,2]`:                                                                                                      `[1,2]`,
		`{"prompt":{"a":1},"x":[]}`:                                                                                  `{"prompt":{"a":1},"x":[]}`,
	} {
		require.Equal(t, want, string(instruction([]byte(object))), object)
	}
}

func TestNameOf(t *testing.T) {
	require.Nil(t, NameFromText([]byte(" \n\u202e\x00")))
	require.Equal(t, &wire.ReadableName{Words: "Up the stairs."}, NameFromText([]byte("\tUp\r\nthe\u2066 stairs.")))
	require.Equal(t, &wire.ReadableName{Words: strings.Repeat("a", maxWords), Truncated: true}, NameFromText([]byte(strings.Repeat("a", 5000))))
	require.Equal(t, &wire.ReadableName{Words: strings.TrimSpace(strings.Repeat("ab ", 33)), Truncated: true}, NameFromText([]byte(strings.Repeat("ab ", 40))))
}

func TestContainsWords(t *testing.T) {
	name := &wire.ReadableName{Label: "Verbose", Words: "You are a Helper."}
	for words, want := range map[string]bool{"you are": true, "helper": true, "elper": false, "verb": true, "are a h": true, "ou are": false} {
		require.Equal(t, want, ContainsWords(name, words), words)
	}
	require.False(t, ContainsWords(nil, "a"))
}

func TestHistograms(t *testing.T) {
	require.Equal(t, []uint64{1, 0, 0, 0, 0, 1, 0, 0, 0, 2}, similarityHistogram([]float64{0, 0.55, 0.95, 1}))
	require.Empty(t, wordsHistogram(nil, nil))
	require.Equal(t, []wire.WordCountBucket{{From: 0, Below: 1, A: 1, B: 2}, {From: 1, Below: 2, A: 1}}, wordsHistogram([]float64{0, 1}, []float64{0, 0}))
	parts := wordsHistogram([]float64{0, 99, 100}, []float64{5, 50, 12})
	require.Len(t, parts, 10)
	require.Equal(t, wire.WordCountBucket{From: 99, Below: 110, A: 2}, parts[9])
}

// For any text, NameFromText returns nil or a short name without control characters.
func FuzzNameOf(f *testing.F) {
	f.Add([]byte("You are a helpful assistant."))
	f.Add([]byte("\u202eabc\xff\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		name := NameFromText(instruction(text))
		if name == nil {
			return
		}
		require.True(t, utf8.ValidString(name.Words))
		require.LessOrEqual(t, utf8.RuneCountInString(name.Words), maxWords)
		for _, r := range name.Words {
			require.True(t, unicode.IsGraphic(r))
		}
	})
}

package show_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/show"
)

func TestFirstWords(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		" \n":          "",
		"Be brief.":    "Be brief.",
		"one\n\ttwo  ": "one two",
		"Describe the ferry in the fog, and then the harbour.": "Describe the ferry in the fog, and then…",
		strings.Repeat("x", 100):                               strings.Repeat("x", 40) + "…",
		`{"a":"short","q":"why is the sea salt?","n":7}`:       "why is the sea salt?",
		`{"seed":7}`:               `{"seed":7}`,
		"a\x1b[31mb\u202ec\xffd":   "a [31mb c\ufffdd",
		strings.Repeat("é ", 4000): strings.TrimSuffix(strings.Repeat("é ", 20), " ") + "…",
	} {
		assert.Equal(t, want, show.FirstWords([]byte(text)), "%.60q", text)
	}
}

// A diff marks words, and passes on no codes that a text has.
func TestDiffIsMarked(t *testing.T) {
	var out bytes.Buffer
	c := cli.New(nil, &out, &out, func(string) (string, bool) { return "", false })
	require.NoError(t, show.Diff(c, []wire.TextEdit{{Op: wire.EditEqual, Text: "The"}, {Op: wire.EditDelete, Text: " fer\x1b[2Jry"}, {Op: wire.EditInsert, Text: " boat"}}))
	require.Equal(t, "The[- fer\\x1b[2Jry-]{+ boat+}\n", out.String())
}

func TestChangesAsCells(t *testing.T) {
	half := wire.Decimal(0.5)
	for _, c := range []struct {
		change         *wire.TextChange
		similar, words string
	}{
		{nil, "-", "-"},
		{&wire.TextChange{Unavailable: wire.TextRedacted}, "redacted", "-"},
		{&wire.TextChange{B: &wire.TextLength{Words: 3}}, "-", "3"},
		{&wire.TextChange{A: &wire.TextLength{Words: 2}, B: &wire.TextLength{Words: 3}, Similarity: &half}, "50.0%", "2 → 3"},
		{&wire.TextChange{A: &wire.TextLength{Words: 2}, B: &wire.TextLength{Words: 3}, Similarity: &half, Bounded: true}, "≥ 50.0%", "2 → 3"},
	} {
		similar, words := show.Change(c.change)
		assert.Equal(t, [2]string{c.similar, c.words}, [2]string{similar, words})
	}
}

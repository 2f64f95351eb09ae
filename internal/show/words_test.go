package show_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"colophon/client/wire"
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

func TestChangesAsCells(t *testing.T) {
	half := wire.Decimal(0.5)
	for _, c := range []struct {
		change         *wire.TextChange
		similar, words string
	}{
		{nil, "-", "-"},
		{&wire.TextChange{Unavailable: wire.UnavailableRedacted}, "redacted", "-"},
		{&wire.TextChange{B: &wire.TextLength{Words: 3}}, "-", "3"},
		{&wire.TextChange{A: &wire.TextLength{Words: 2}, B: &wire.TextLength{Words: 3}, Similarity: &half}, "50.0%", "2 → 3"},
		{&wire.TextChange{A: &wire.TextLength{Words: 2}, B: &wire.TextLength{Words: 3}, Similarity: &half, LowerBound: true}, "≥ 50.0%", "2 → 3"},
	} {
		similar, words := show.TextChangeCells(c.change)
		assert.Equal(t, [2]string{c.similar, c.words}, [2]string{similar, words})
	}
}

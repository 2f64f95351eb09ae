package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

const diffOf = prefix + "/diff"

func TestTextsAreComparedAsTheContractSays(t *testing.T) {
	s := generated(t)
	s.requireExample(t, "TextDiff", get(diffOf).asking("?a=1&b=3"))
	s.requireExample(t, "TextDiff", get(diffOf).asking("?a=1&b=3&of=output"))

	var diff wire.TextDiff
	s.do(t, get(diffOf).asking("?a=1&b=5&of=payload"), http.StatusOK).decode(t, &diff)
	require.Equal(t, []wire.TextEdit{{Op: wire.EditEqual, Text: `{"scene":"ferry"}`}}, diff.Edits)
	require.Equal(t, wire.Decimal(1), diff.Similarity)

	story := func(text string) call {
		return post(prefix+"/path-fingerprints", fmt.Sprintf(`{"project":"p","build":"b","route":["start"],"content":%q}`, text))
	}
	s.do(t, story("A door."), http.StatusCreated)
	s.do(t, story("A red door."), http.StatusCreated)
	s.do(t, get(diffOf).asking("?a=8&b=9&of=passage"), http.StatusOK).decode(t, &diff)
	require.Equal(t, []wire.TextEdit{{Op: wire.EditEqual, Text: "A "}, {Op: wire.EditInsert, Text: "red"}, {Op: wire.EditEqual, Text: " door."}}, diff.Edits)

	s.do(t, get(diffOf).asking("?a=1&b=99"), http.StatusBadRequest)
	s.do(t, get(diffOf).asking("?a=1&b=8"), http.StatusNotFound) // a path fingerprint has no output
	s.do(t, get(diffOf).asking("?a=7&b=1"), http.StatusNotFound) // event 7 has no output either
}

func TestFiguresOfTexts(t *testing.T) {
	s := generated(t)
	s.do(t, get(groupsOf).asking("?after=7&by=model"), http.StatusOK)
	length := func(bytes, words uint64) *wire.TextLength {
		return &wire.TextLength{Bytes: bytes, Characters: bytes, Words: words}
	}
	decimal := func(d wire.Decimal) *wire.Decimal { return &d }
	change := wire.TextChange{A: length(18, 4), B: length(15, 3), Similarity: decimal(0.444444), LengthChange: decimal(-0.25)}
	same := wire.TextChange{A: length(18, 4), B: length(18, 4), Similarity: decimal(1), LengthChange: decimal(0)}

	var attribution wire.DriftAttribution
	s.do(t, get(attributionOf).asking("?a=1&b=3&text=true"), http.StatusOK).decode(t, &attribution)
	require.Equal(t, change, attribution.Text.Output)
	require.Equal(t, decimal(1), attribution.Text.Prompt.Similarity)
	require.Equal(t, decimal(1), attribution.Text.Payload.Similarity)

	var timeline wire.Page[wire.TimelineRow]
	s.do(t, get(timelineOf).asking("?model=gemma2%3A2b&text=true"), http.StatusOK).decode(t, &timeline)
	require.Equal(t, wire.TextChange{B: length(18, 4)}, *timeline.Rows[0].Text)
	require.Equal(t, same, *timeline.Rows[1].Text)

	var effects wire.EffectsAnswer
	const effectsOfModel = "?variable=model&a=gemma2%3A2b&b=gemma2%3A9b&text=true"
	s.do(t, get(effectsOf).asking(effectsOfModel), http.StatusOK).decode(t, &effects)
	require.Equal(t, change, *effects.Rows[0].Text)
	require.Equal(t, &wire.EffectTextSummary{Pairs: 1,
		Similarity: &wire.Quartiles{Q1: 0.444444, Median: 0.444444, Q3: 0.444444}, LengthChange: &wire.Quartiles{Q1: -0.25, Median: -0.25, Q3: -0.25},
		WordsA: &wire.Quartiles{Q1: 4, Median: 4, Q3: 4}, WordsB: &wire.Quartiles{Q1: 3, Median: 3, Q3: 3},
		SimilarityHistogram: []uint64{4: 1, 9: 0},
		WordsHistogram:      []wire.WordCountBucket{{From: 0, Below: 1}, {From: 1, Below: 2}, {From: 2, Below: 3}, {From: 3, Below: 4, B: 1}, {From: 4, Below: 5, A: 1}},
		MostChanged:         []wire.ChangedPair{{A: 1, B: 3, Similarity: 0.444444, LengthChange: decimal(-0.25)}},
	}, effects.Text)

	// Without text=true, an answer contains no figures about texts.
	for _, k := range []call{get(attributionOf).asking("?a=1&b=3"), get(timelineOf).asking("?model=gemma2%3A2b"), get(effectsOf).asking(strings.TrimSuffix(effectsOfModel, "&text=true"))} {
		require.NotContains(t, string(s.do(t, k, http.StatusOK).body), `"text"`)
	}

	// An answer contains no figures about a redacted text, even if they were computed before.
	s.do(t, verb(http.MethodDelete, contentsOf, because, "seq", "3"), http.StatusCreated)
	var p struct {
		RedactedBy uint64 `json:"redacted_by"`
	}
	s.do(t, get(diffOf).asking("?a=1&b=3"), http.StatusGone).decode(t, &p)
	require.Equal(t, uint64(8), p.RedactedBy)
	attribution = wire.DriftAttribution{}
	s.do(t, get(attributionOf).asking("?a=1&b=3&text=true"), http.StatusOK).decode(t, &attribution)
	require.Equal(t, wire.TextChange{Unavailable: wire.UnavailableRedacted}, attribution.Text.Output)
	effects = wire.EffectsAnswer{}
	s.do(t, get(effectsOf).asking(effectsOfModel), http.StatusOK).decode(t, &effects)
	require.Equal(t, wire.TextChange{Unavailable: wire.UnavailableRedacted}, *effects.Rows[0].Text)
	require.Equal(t, &wire.EffectTextSummary{Unavailable: 1, SimilarityHistogram: make([]uint64, 10), WordsHistogram: []wire.WordCountBucket{}, MostChanged: []wire.ChangedPair{}}, effects.Text)

	// Event 7 has no output.
	s.do(t, get(attributionOf).asking("?a=1&b=7&text=true"), http.StatusOK).decode(t, &attribution)
	require.Equal(t, wire.TextChange{Unavailable: wire.UnavailableNotPosted}, attribution.Text.Output)
}

// With text=true, figures cover only the first 1,000 pairs. With totals=first, the totals also
// cover only those pairs.
func TestOfManyPairsTheFirstAreCompared(t *testing.T) {
	s := newServer(t)
	const pairs = 1001
	var lines strings.Builder
	for i := range pairs {
		for _, model := range [...]string{"m1", "m2"} {
			output := "A light."
			if i%2 == 1 {
				output += " " + model
			}
			fmt.Fprintf(&lines, "{\"kind\":\"ipc_record\",\"record\":{\"payload\":{\"n\":%d},\"system_prompt\":\"p\",\"output\":%q,\"model\":%q,\"temperature\":0,\"max_tokens\":9,\"seed\":1}}\n", i, output, model)
		}
	}
	batch := post(prefix+"/batch", lines.String())
	batch.header = map[string]string{"Content-Type": "application/x-ndjson"}
	s.do(t, batch, http.StatusOK)

	var all, first wire.EffectsAnswer
	of := fmt.Sprintf("?variable=model&a=m1&b=m2&limit=2&after=%d", 2*pairs)
	s.do(t, get(effectsOf).asking(of+"&text=true"), http.StatusOK).decode(t, &all)
	require.Equal(t, []uint64{pairs, pairs / 2, pairs/2 + 1}, []uint64{all.Pairs, all.Changed, all.Unchanged})
	require.False(t, all.Partial)
	require.True(t, all.Text.Partial)
	require.Equal(t, uint64(1000), all.Text.Pairs)
	require.Equal(t, []uint64{7: 500, 9: 500}, all.Text.SimilarityHistogram)

	s.do(t, get(effectsOf).asking(of+"&totals=first"), http.StatusOK).decode(t, &first)
	require.Equal(t, []uint64{1000, 500, 500}, []uint64{first.Pairs, first.Changed, first.Unchanged}, "the first combination is the newest, so the oldest is left out")
	require.True(t, first.Partial)
	require.Len(t, first.Rows, 2)

	// If there are fewer than 1,000 pairs, totals=first covers all pairs.
	s = generated(t)
	all = wire.EffectsAnswer{}
	s.do(t, get(effectsOf).asking("?variable=model&a=gemma2%3A2b&b=gemma2%3A9b&after=7"), http.StatusOK).decode(t, &all)
	first = wire.EffectsAnswer{}
	s.do(t, get(effectsOf).asking("?variable=model&a=gemma2%3A2b&b=gemma2%3A9b&totals=first"), http.StatusOK).decode(t, &first)
	require.Equal(t, uint64(1), first.Pairs)
	require.Equal(t, all, first)
}

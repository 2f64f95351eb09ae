package show_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/show"
)

// printed returns everything that print writes to the console.
func printed(t *testing.T, print func(*cli.Console) error) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, print(cli.New(nil, &out, &out, func(string) (string, bool) { return "", false })))
	return out.String()
}

var (
	liveRow  = &wire.RecordAnswer{RowMembers: wire.RowMembers{Seq: 1}, State: wire.StateLive}
	staleRow = &wire.RecordAnswer{RowMembers: wire.RowMembers{Seq: 2}, State: "stale", Checks: wire.Checks{
		"output_hash": {Result: wire.CheckResultMismatch}, "ipc_id": {Result: wire.CheckResultMismatch}, "input_hash": {Result: "match"},
	}}
)

// PrintIPCChange shows the cause, warns about anything that makes the comparison doubtful, and lists the
// variables that differ.
func TestIPCChange(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	x := &wire.IPCChange{Summary: "The output changed.", Cause: "multiple_inputs", Differences: []wire.VariableDifference{
		{Variable: "seed", A: json.RawMessage(`7`), B: json.RawMessage(`null`)},
		{Variable: "other_hash", A: json.RawMessage(`"` + hash + `"`), B: json.RawMessage(`"\u001b"`)},
	}}
	require.Equal(t, `From event 1 to event 2: The output changed.
Cause: multiple_inputs.
Event 2 is stale, not live.
Wrong claims of event 2: ipc_id, output_hash

VARIABLE    EVENT 1        EVENT 2
seed        7              -
other_hash  abababababab…  "\x1b"
`, printed(t, func(c *cli.Console) error {
		return show.PrintIPCChange(t.Context(), c, new(show.TextReader), x, liveRow, staleRow, false)
	}))
	x.Differences = x.Differences[:0]
	require.Equal(t, "From event 1 to event 1: The output changed.\nCause: multiple_inputs.\n", printed(t, func(c *cli.Console) error {
		return show.PrintIPCChange(t.Context(), c, new(show.TextReader), x, liveRow, liveRow, true)
	}))
}

// If a record is compared with itself, the warnings about it are printed only once. Empty lists are
// omitted.
func TestRunDAGChange(t *testing.T) {
	x := &wire.RunDAGChange{Summary: "They diverge.", DifferingStages: []string{"plan", "a\nb"}, OnlyInB: []string{"check"}}
	require.Equal(t, `From event 2 to event 2: They diverge.
Differing stages: plan, "a\nb"
Only in event 2: check
Event 2 is stale, not live.
Wrong claims of event 2: ipc_id, output_hash
`, printed(t, func(c *cli.Console) error { return show.PrintRunDAGChange(c, x, staleRow, staleRow) }))
}

func TestValues(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for value, want := range map[string]string{
		`null`: "-", `"a"`: "a", `0.7`: "0.7", `"\u001b"`: `"\x1b"`, `12345678901234567890`: "12345678901234567890", `"` + hash + `"`: hash,
	} {
		require.Equal(t, want, new(show.TextReader).ValueCell(t.Context(), "seed", json.RawMessage(value), 1, true))
	}
}

func TestTextDiff(t *testing.T) {
	x := &wire.TextDiff{A: wire.DiffedText{SHA256: "a", TextLength: wire.TextLength{Words: 2}}, B: wire.DiffedText{SHA256: "b", TextLength: wire.TextLength{Words: 3}},
		Similarity: 0.5, LengthChange: new(wire.Decimal(0.5)), Edits: []wire.TextEdit{{Op: wire.EditEqual, Text: "a b"}, {Op: wire.EditInsert, Text: " c"}}}
	print := func(c *cli.Console) error { return show.PrintTextDiff(c, "output", x) }
	require.Equal(t, "\nThe output is 50.0% similar; its length changes from 2 to 3 words (+50.0%).\na b{+ c+}\n", printed(t, print))
	x.LengthChange, x.LowerBound = nil, true
	require.Equal(t, "\nThe output is ≥ 50.0% similar; its length changes from 2 to 3 words.\na b{+ c+}\n", printed(t, print))
	x.B = x.A
	require.Equal(t, "\nThe output is the same: 2 words.\n", printed(t, print))
}

// PrintTextDiff marks deleted and inserted words, and escapes control codes in the text.
func TestDiffIsMarked(t *testing.T) {
	x := &wire.TextDiff{A: wire.DiffedText{SHA256: "a"}, B: wire.DiffedText{SHA256: "b"}, Edits: []wire.TextEdit{
		{Op: wire.EditEqual, Text: "The"}, {Op: wire.EditDelete, Text: " fer\x1b[2Jry"}, {Op: wire.EditInsert, Text: " boat"}}}
	out := printed(t, func(c *cli.Console) error { return show.PrintTextDiff(c, "output", x) })
	require.True(t, strings.HasSuffix(out, "\nThe[- fer\\x1b[2Jry-]{+ boat+}\n"), out)
}

func TestEffectTexts(t *testing.T) {
	x := &wire.EffectTextSummary{Pairs: 2, Partial: true, Similarity: &wire.Quartiles{Q1: 0.25, Median: 0.5, Q3: 0.75}, LengthChange: &wire.Quartiles{Q1: -0.1, Median: 0, Q3: 0.1},
		MostChanged: []wire.ChangedPair{{A: 1, B: 2, Similarity: 0.25, LengthChange: new(wire.Decimal(-0.1)), Name: &wire.ReadableName{Words: "Who was Ana?"}}, {A: 3, B: 4, Similarity: 1}}}
	effect := func(c *cli.Console) error { return show.PrintEffectTextSummary(c, x) }
	require.Equal(t, "Over the first 2 pairs, the median similarity of the outputs is 50.0% (quartiles 25.0% and 75.0%), and the median change in length is 0.0% (quartiles -10.0% and +10.0%).\n\n", printed(t, effect))
	require.Equal(t, `EVENT A  EVENT B  SIMILAR  LENGTH  INPUT
      1        2    25.0%  -10.0%  Who was Ana?
      3        4   100.0%       -  -
`, printed(t, func(c *cli.Console) error { return show.PrintMostChangedPairs(c, x) }))
	x.WordsA, x.WordsB = &wire.Quartiles{Median: 14}, &wire.Quartiles{Median: 41.5}
	require.True(t, strings.HasSuffix(printed(t, effect), "+10.0%). The median length goes from 14 to 42 words.\n\n"))
	x.Similarity = nil
	require.Empty(t, printed(t, effect))
}

package indextest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/records"
	"colophon/ledger/index/runs"
)

// Effects in the real input have the expected numbers of pairs and of changed outputs.
func TestRealInputEffects(t *testing.T) {
	f, log := foldBodies(t, realBodies(t, "generations")...)
	view := viewOf(t, f, log.head.Size)
	first := make(map[string]records.IPCRecord) // the record for the first input of each series, keyed by series
	for seq := uint64(1); seq < log.head.Size; seq++ {
		r, err := records.ReadIPCRecord(t.Context(), view, seq)
		require.NoError(t, err)
		series, name := filepath.Split(string(r.RunID))
		if name == "0" {
			first[filepath.Base(series)] = r
		}
	}
	prompt := func(series string) string { return string(first[series].SystemPromptHash) }
	for _, c := range []struct {
		query          effects.Query
		pairs, changed uint64
	}{
		{effects.Query{Variable: "model", A: "claude-2", B: "claude-2.1"}, 805, 802},
		{effects.Query{Variable: "system_prompt_hash", A: prompt("gpt4_1106_preview"), B: prompt("gpt4_1106_preview_verbose")}, 805, 799},
		{effects.Query{Variable: "system_prompt_hash", A: prompt("gpt4_1106_preview"), B: prompt("gpt4_1106_preview_concise")}, 805, 797},
		{effects.Query{Variable: "model", A: "claude-2", B: "./alpaca_7b"}, 0, 0},
	} {
		totals, err := effects.CountPairs(t.Context(), view, c.query, nil)
		require.NoError(t, err)
		require.Equal(t, effects.Totals{Pairs: c.pairs, ChangedPairs: c.changed, UnchangedPairs: c.pairs - c.changed, TreeSize: view.Size()}, totals, c.query)
		c.query.A, c.query.B = c.query.B, c.query.A
		pairs := pages(t, 100, func(p index.PageRequest) ([]effects.Pair, []byte, error) {
			return effects.ListPairs(t.Context(), view, c.query, p)
		})
		require.Len(t, pairs, int(c.pairs))
	}
	alpaca, claude := first["alpaca-7b"], first["claude-2"]
	r := drift.CompareRuns(&alpaca.IPC, &claude.IPC, drift.CitationSetPair{})
	require.Equal(t, drift.CauseConfounded, r.Cause)
	require.Equal(t, "[system_prompt model max_tokens]", fmt.Sprint(namesOf(runs.TimelineStep{RunChange: r})))
}

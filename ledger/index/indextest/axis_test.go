package indextest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
)

// axisBody returns the body of an IPC record whose payload contains axes and a seed.
func axisBody(t tester, scene, seed int, model, output string) string {
	t.Helper()
	return posted(t, record.KindIPCRecord, fmt.Sprintf(`{"payload":{"axes":{"warmth":{"label":"warm","score":0.%d}},"policy_hash":"p%d","seed":%d,`+
		`"world_id":"w"},"system_prompt":"kind","model":%q,"temperature":0.2,"max_tokens":64,"output":%q}`, scene+1, scene%2, seed, model, output))
}

// Payloads that differ only in the seed are treated as one input. If the outputs differ too, the
// cause is the seed, and each pair of runs is found as an effect of the seed.
func TestSeedsInPayloads(t *testing.T) {
	var bodies []string
	for scene := range 8 {
		for seed := range 3 {
			bodies = append(bodies, axisBody(t, scene, seed, "m", fmt.Sprint("output ", scene, seed)))
		}
	}
	f, log := foldBodies(t, bodies...)
	v := viewOf(t, f, log.head.Size)
	for scene := range uint64(8) {
		for _, pair := range [][2]uint64{{0, 1}, {1, 2}, {0, 2}} {
			a, err := records.ReadIPCRecord(t.Context(), v, 1+3*scene+pair[0])
			require.NoError(t, err)
			b, err := records.ReadIPCRecord(t.Context(), v, 1+3*scene+pair[1])
			require.NoError(t, err)
			require.Equal(t, drift.CauseSeed, drift.CompareRuns(&a.IPC, &b.IPC, drift.CitationSetPair{}).Cause)

			group, found, err := groups.Get(t.Context(), v, groups.RunQuery{Value: records.Value{Name: records.NameInput, Text: string(a.InputIdentity())}})
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, uint64(3), group.Runs)
		}
		d, found, err := runs.DriftOf(t.Context(), v, 3+3*scene)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, drift.CauseSeed, d.Cause)
	}
	q := effects.Query{Variable: "seed", A: "0", B: "2"}
	totals, err := effects.CountPairs(t.Context(), v, q, nil)
	require.NoError(t, err)
	require.Equal(t, effects.Totals{Pairs: 8, ChangedPairs: 8, TreeSize: v.Size()}, totals)
	pairs := pages(t, 3, func(p index.PageRequest) ([]effects.Pair, []byte, error) {
		return effects.ListPairs(t.Context(), v, q, p)
	})
	require.Len(t, pairs, 8)
	for _, pair := range pairs {
		require.Equal(t, uint64(2), pair.B.Seq-pair.A.Seq)
	}
	require.Equal(t, uint64(16), countsOf(f)[counters.SeriesOf(counters.MetricDrift, "seed")])
}

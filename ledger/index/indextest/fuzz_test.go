package indextest

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/paths"
	"colophon/ledger/record"
)

// knownLabels returns label values that counters can have. It does not contain all stage names.
func knownLabels() map[string]bool {
	known := map[string]bool{"": true, counters.OtherLabel: true}
	for _, k := range record.RecordKinds {
		known[string(k)] = true
	}
	for _, r := range counters.HashCheckResults {
		known[string(r)] = true
	}
	for _, r := range counters.RefusalReasons {
		known[string(r)] = true
	}
	for _, s := range record.States {
		known[string(s)] = true
	}
	for _, c := range drift.Causes {
		known[string(c)] = true
	}
	for _, c := range paths.Categories {
		known[string(c)] = true
	}
	for _, name := range slices.Concat(counters.CheckedFields[:], []string{"none", "retrieval", "context", "answer", "STRICT", "HYBRID", "UNGROUNDED"}) {
		known[name] = true
	}
	return known
}

// Folding an arbitrary event body either fails with ErrNotEvent, or counts the event under labels from
// a fixed set.
func FuzzEvent(f *testing.F) {
	for _, full := range fullRecords {
		f.Add(posted(f, full.kind, full.text))
		f.Add(refused(f, full.kind, full.text, record.RefusalMismatch))
	}
	f.Add(rawBody("poem", `{"metre":{"result":"limping"}}`, `[]`))
	f.Add(rawBody("record_refused", `[]`, `{"reason":1}`))
	f.Add(rawBody("record_state_changed", `{}`, `{"record_seq":0,"state":"failed"}`))
	f.Add(rawBody("path_validated", `{}`, `{"project":"p","path_id":"0cc175b9","validated":true}`))
	f.Add(rawBody("note", `{}`, `{"record_seq":0,"topic":"review"}`))
	f.Add(rawBody("note", `{}`, `{"record_seq":"0","topic":1}`))
	f.Add(rawBody("source_registered", `{}`, `{"source_id":"s","chunk_hashes":["sha256:`+zeros+`"]}`))
	f.Add(rawBody("source_revoked", `{}`, `{"source_id":"s"}`))
	f.Add(rawBody("ipc_record", `{}`, `{"producer":{"id":"p","seq":18446744073709551615},"labels":{"":""},"timestamp":"0000-01-01T00:00:00Z"}`))
	s, err := index.OpenResolved(testConfig(vfs.NewMem()))
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	log, known := newJournal(f, "default"), knownLabels()
	f.Fuzz(func(t *testing.T, body string) {
		folded, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
		require.NoError(t, err)
		defer folded.Close()
		folded.CurrentFold().MaxBatchEffects = 1
		err = folded.CurrentFold().FoldEntry(t.Context(), append(make([]byte, 32), body...))
		if errors.Is(err, index.ErrNotEvent) {
			return
		}
		require.NoError(t, err)
		for series := range folded.CurrentFold().Counters.Counts() {
			for _, l := range series.Labels {
				require.True(t, known[l] || naiveField(l) == l || naiveField("stage:"+l) == "stage:"+l, l)
			}
		}
	})
}

package index

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
)

func FuzzDecodeState(f *testing.F) {
	s := state{size: 7, tip: [32]byte{1}, counts: newCounts()}
	s.counts.check("ipc_record", "ipc_id", "match")
	f.Add(s.append(nil))
	f.Add(state{size: 1}.append(nil))
	f.Add([]byte("nonsense"))
	f.Fuzz(func(t *testing.T, value []byte) {
		decoded, err := decodeState(value)
		if err != nil {
			return
		}
		again, err := decodeState(decoded.append(nil))
		require.NoError(t, err)
		require.Equal(t, decoded, again)
	})
}

// Whatever an event's body is, folding it fails and changes nothing, or counts
// it under labels of the fixed sets.
func FuzzEvent(f *testing.F) {
	for _, full := range fullRecords {
		f.Add(posted(f, full.kind, full.text))
		f.Add(refused(f, full.kind, full.text, record.RefusedMismatch))
	}
	f.Add(foreign("poem", `{"metre":{"result":"limping"}}`, `[]`))
	f.Add(foreign("record_refused", `[]`, `{"reason":1}`))
	s, err := open(testConfig(vfs.NewMem()))
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	known := map[string]bool{"": true, other: true}
	for _, k := range record.Kinds {
		known[string(k)] = true
	}
	for _, r := range results {
		known[string(r)] = true
	}
	for _, r := range refusals {
		known[string(r)] = true
	}
	for _, name := range fields {
		known[name] = true
	}
	f.Fuzz(func(t *testing.T, body string) {
		batch := s.engine.NewBatch()
		defer batch.Close()
		folded := fold{keys: newKeyspace("default"), state: state{counts: newCounts()}}
		entry := append(make([]byte, 32), body...)
		if folded.event(batch, entry) != nil {
			require.Equal(t, state{counts: newCounts()}, folded.state)
			require.True(t, batch.Empty())
			return
		}
		require.Equal(t, uint64(1), folded.state.size)
		require.Equal(t, uint32(1), batch.Count())
		for series := range folded.state.counts {
			for _, l := range series.labels {
				require.True(t, known[l] || naiveField(l) == l, l)
			}
		}
	})
}

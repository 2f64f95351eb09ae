package indextest

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index/counters"
	"colophon/ledger/record"
)

func TestTally(t *testing.T) {
	log := newJournal(t, "default")
	log.append(
		posted(t, record.KindPathFingerprint, `{"project":"p","route":["a"],"path_id":"0cc175b9"}`),
		refused(t, record.KindPathFingerprint, `{"project":"p","route":["b"]}`, record.RefusalKeyConflict),
	)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	require.Equal(t, counters.Tally{
		Size:             2,
		RecordsByKind:    map[string]uint64{"citation_set": 0, "ipc_record": 0, "path_fingerprint": 1, "run_dag": 0},
		RefusalsByReason: map[string]uint64{"idempotency_key_conflict": 1, "mismatch": 0},
		IncompleteByPart: map[string]uint64{"max_tokens": 0, "output": 0, "seed": 0, "system_prompt": 0, "temperature": 0},
		CheckCounts: []counters.CheckCount{
			{Kind: "path_fingerprint", Field: "path_id", Result: "claimed", Count: 0},
			{Kind: "path_fingerprint", Field: "path_id", Result: "computed", Count: 0},
			{Kind: "path_fingerprint", Field: "path_id", Result: "match", Count: 1},
			{Kind: "path_fingerprint", Field: "path_id", Result: "mismatch", Count: 0},
		},
	}, counters.TallyOf(f))
	require.NoError(t, s.Close())
}

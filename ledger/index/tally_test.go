package index

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
)

func TestTally(t *testing.T) {
	log := newJournal(t, "default")
	log.append(
		posted(t, record.PathFingerprint, `{"project":"p","route":["a"],"path_id":"0cc175b9"}`),
		refused(t, record.PathFingerprint, `{"project":"p","route":["b"]}`, record.RefusedKey),
	)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	require.Equal(t, Tally{
		Size:     2,
		Records:  map[string]uint64{"citation_set": 0, "ipc_record": 0, "path_fingerprint": 1, "run_dag": 0},
		Refusals: map[string]uint64{"idempotency_key_conflict": 1, "mismatch": 0},
		Checks: []CheckCount{
			{"path_fingerprint", "path_id", "claimed", 0},
			{"path_fingerprint", "path_id", "computed", 0},
			{"path_fingerprint", "path_id", "match", 1},
			{"path_fingerprint", "path_id", "mismatch", 0},
		},
	}, f.Tally())
	require.NoError(t, s.Close())
}

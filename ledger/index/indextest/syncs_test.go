package indextest

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage/faulty"
)

// A fold does not sync, because events whose rows are lost in a crash are folded again. Only tables
// are synced, one at a time, when they are written.
func TestFoldsDoNotSync(t *testing.T) {
	// The plan adds a pause of zero length to each sync, only to count the syncs.
	syncs := faulty.New(faulty.Plan{Mode: faulty.ModeSlow, Calls: []string{faulty.CallSync}, FailCount: -1})
	c := testConfig(faulty.NewFS(vfs.NewMem(), syncs))
	c.RowStore.MemTableBytes, c.MaxBatchEvents = 8<<20, 10
	s := openTest(t, c)
	log := newJournal(t, "default")
	f := follow(t, s, log)
	opened := syncs.FaultCounts()[faulty.CallSync]
	for n := range 30 {
		log.append(plains(t, 10*n, 10*n+10)...)
		log.catchUp(f)
	}
	require.Equal(t, opened, syncs.FaultCounts()[faulty.CallSync], "30 batches")
	require.NoError(t, s.Close())
	require.Less(t, syncs.FaultCounts()[faulty.CallSync]-opened, 10, "one table and the manifest")
}

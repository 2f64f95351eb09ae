package ledger_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/pebble"
)

// In a large batch, a record costs less than one allocation on average between Enqueue and its
// acknowledgement, because the allocations are made for the whole batch.
func TestAllocationsOfABatch(t *testing.T) {
	const records, runs = 256, 8
	database, err := pebble.Open(t.Context(), pebble.Config{Dir: "db", FS: vfs.NewMem(), Logger: discard()})
	require.NoError(t, err)
	l, err := ledger.Open(t.Context(), store(t, storage.Database(database)), config(t))
	require.NoError(t, err)
	var submissions []ledger.Submission
	for i := range records * (runs + 1) { // the first run is a warm-up
		submissions = append(submissions, submission(t, l, ipc(t, fmt.Sprint("run/", i), fmt.Sprint("output ", i)), ""))
	}
	tickets := make([]ledger.Ticket, records)
	allocations := testing.AllocsPerRun(runs, func() {
		for i := range tickets {
			ticket, err := l.Enqueue(t.Context(), submissions[i])
			require.NoError(t, err)
			tickets[i] = ticket
		}
		submissions = submissions[records:]
		for _, ticket := range tickets {
			ack, err := ticket.Wait()
			require.NoError(t, err)
			require.Equal(t, ledger.OutcomeAppended, ack.Outcome)
		}
	})
	require.Less(t, allocations/records, 1.0)
	require.NoError(t, l.Close())
	require.NoError(t, database.Close())
}

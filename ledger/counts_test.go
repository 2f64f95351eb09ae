package ledger_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/pebble"
)

// counted is a ledger on a file system that counts syncs and new log files.
type counted struct {
	database *pebble.Database
	ledger   *ledger.Ledger
	syncs    *faulty.Injector // counts syncs of the write-ahead log
	logs     *faulty.Injector // counts new log files; creating one causes an extra sync of the previous file
	commits  atomic.Int64
}

// count returns a counter for the given calls on files that match path. It injects zero-length
// pauses, which have no effect except that they are counted.
func count(path string, calls ...string) *faulty.Injector {
	return faulty.New(faulty.Plan{Mode: faulty.ModeSlow, Calls: calls, FilePattern: path, FailCount: -1})
}

func openCounted(t *testing.T) *counted {
	t.Helper()
	c := &counted{syncs: count("*.log", faulty.CallSync), logs: count("*.log", faulty.CallCreate, faulty.CallReuseForWrite)}
	files := faulty.NewFS(faulty.NewFS(vfs.NewMem(), c.syncs), c.logs)
	var err error
	c.database, err = pebble.Open(t.Context(), pebble.Config{Dir: "db", FS: files, Logger: discard()})
	require.NoError(t, err)
	s, err := c.database.CreateLedger(t.Context(), storage.LedgerInfo{Name: ledger.DefaultName, Origin: "test.invalid/default"})
	require.NoError(t, err)
	c.ledger, err = ledger.Open(t.Context(), s, config(t))
	require.NoError(t, err)
	c.ledger.OnCommit(func(ledger.Commit) { c.commits.Add(1) })
	t.Cleanup(func() {
		require.NoError(t, c.ledger.Close())
		require.NoError(t, c.database.Close())
	})
	return c
}

// synced returns how often the write-ahead log was synced, not counting the final sync of each file.
func (c *counted) synced() int {
	logs := c.logs.FaultCounts()
	return c.syncs.FaultCounts()[faulty.CallSync] - logs[faulty.CallCreate] - logs[faulty.CallReuseForWrite]
}

// A commit syncs the write-ahead log once, however many records it contains. There are no other
// syncs.
func TestCommitSyncsOnce(t *testing.T) {
	c := openCounted(t)
	before := c.synced()
	for i := range 10 {
		post(t, c.ledger, ipc(t, "", fmt.Sprint("alone ", i)), "")
	}
	require.EqualValues(t, 10, c.commits.Load())
	require.Equal(t, 10, c.synced()-before)

	const records, batch = 400, 100
	for first := 0; first < records; first += batch {
		var tickets []ledger.Ticket
		for i := range batch {
			ticket, err := c.ledger.Enqueue(context.Background(), submission(t, c.ledger, ipc(t, "", fmt.Sprint("together ", first+i)), ""))
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		for _, ticket := range tickets {
			_, err := ticket.Wait()
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, c.commits.Load(), c.synced()-before)
	require.Less(t, c.commits.Load(), int64(10+records/2), "concurrent records share commits")
}

// Besides events and content, a commit writes at most 200 bytes for each key and each piece of
// content, and 8 KiB for each tile that grows. It does not write content that the ledger already has.
func TestBytesOfACommit(t *testing.T) {
	c := openCounted(t)
	written := func() int {
		m, err := c.database.Metrics()
		require.NoError(t, err)
		return int(m.WALBytes)
	}
	post(t, c.ledger, ipc(t, "first", "brings the system prompt"), "")
	for _, n := range []int{1, 10, 100} {
		before, size := written(), 0
		var tickets []ledger.Ticket
		commits := c.commits.Load()
		for i := range n {
			s := submission(t, c.ledger, ipc(t, fmt.Sprint("run ", n, i), fmt.Sprint("output ", n, i)), "")
			for _, content := range s.Contents {
				if content.Name != "system_prompt" { // the ledger already has the system prompt
					size += len(content.Bytes)
				}
			}
			ticket, err := c.ledger.Enqueue(context.Background(), s)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		for _, ticket := range tickets {
			ack, err := ticket.Wait()
			require.NoError(t, err)
			size += len(ack.Entry)
		}
		const each, tiles = 400, 2 * 8 << 10
		most := size + n*each + int(c.commits.Load()-commits)*tiles
		grown := written() - before
		require.Less(t, grown, most, "%d records of %d bytes", n, size)
		require.Greater(t, grown, size)
		t.Logf("%d records in %d commits: %d bytes, %d written", n, c.commits.Load()-commits, size, grown)
	}
}

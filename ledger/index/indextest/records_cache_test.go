package indextest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/storage"
)

// unread is a log that fails the test if an entry is read while forbidden is set.
type unread struct {
	storage.Reader
	t         tester
	forbidden *atomic.Bool
}

func (u unread) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if u.forbidden.Load() {
		require.Fail(u.t, "an entry was read")
	}
	return u.Reader.Entry(ctx, seq)
}

// Runs that have been queried are served from memory. They equal the runs read from the log and count
// the same toward the limits of a page.
func TestRecordsAreCached(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	log.append(plains(t, 0, 5)...)
	log.append(posted(t, record.KindIPCRecord, `{"run_id":"r","payload_schema":"axis-payload-1","payload":{"axes":{},"policy_hash":"p","seed":1,"world_id":"w"},`+
		`"system_prompt":"","model":"m","temperature":1,"max_tokens":2,"labels":{"a":"b"}}`))
	c := testConfig(vfs.NewMem())
	none := c
	none.RowStore.Dir, none.EventCacheBytes = "another", index.MinEventCacheBytes-1

	type answer struct {
		records.IPCRecord
		listed         records.Record
		touched, bytes int
	}
	ask := func(f *index.Follower, seq uint64) (a answer, err error) {
		v, err := f.View(log.head.Size)
		require.NoError(t, err)
		defer func() { require.NoError(t, v.Close()) }()
		if a.IPCRecord, err = records.ReadIPCRecord(t.Context(), v, seq); err == nil {
			a.listed, err = records.Read(t.Context(), v, new(records.Filter), seq)
		}
		a.touched, a.bytes = v.KeysRead(), v.EventBytesRead()
		return a, err
	}
	plainly := openTest(t, none)
	from := follow(t, plainly, log)
	log.catchUp(from)
	s := openTest(t, c)
	forbidden := new(atomic.Bool)
	f, err := s.Follow(log.name, unread{log.store, t, forbidden})
	require.NoError(t, err)
	log.catchUp(f)
	for seq := uint64(1); seq < log.head.Size; seq++ {
		want, err := ask(from, seq)
		require.NoError(t, err)
		require.Equal(t, 2, want.touched)
		require.Equal(t, 2*len(log.entries[seq]), want.bytes)
		first, err := ask(f, seq)
		require.NoError(t, err)
		require.Equal(t, want, first)
		forbidden.Store(true)
		again, err := ask(f, seq)
		require.NoError(t, err)
		require.Equal(t, want, again)
		forbidden.Store(false)
	}
	forbidden.Store(true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	v, err := f.LatestView()
	require.NoError(t, err)
	_, err = records.ReadIPCRecord(gone, v, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = records.Read(gone, v, new(records.Filter), 1)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, v.Close())
	forbidden.Store(false)
	_, err = ask(f, 0)
	require.ErrorIs(t, err, storage.ErrNotFound, "not an IPC record")
	require.NoError(t, s.Close())
	require.NoError(t, plainly.Close())
}

// Logs do not share cached records.
func TestRecordsAreCachedPerLog(t *testing.T) {
	s := openTest(t, testConfig(vfs.NewMem()))
	var followers []*index.Follower
	var logs []*journal
	for n, name := range []string{"a", "b"} {
		log := newJournal(t, name)
		log.append(plain(t, n))
		f := follow(t, s, log)
		log.catchUp(f)
		followers, logs = append(followers, f), append(logs, log)
	}
	for i, f := range followers {
		v, err := f.LatestView()
		require.NoError(t, err)
		r, err := records.ReadIPCRecord(t.Context(), v, 0)
		require.NoError(t, err)
		require.Contains(t, string(logs[i].entries[0]), string(r.OutputHash))
		require.NoError(t, v.Close())
	}
	require.NoError(t, s.Close())
}

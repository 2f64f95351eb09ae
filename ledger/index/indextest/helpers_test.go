package indextest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/storage"
	"colophon/storage/memory"
)

// tester is implemented by *testing.T, *testing.B, and *rapid.T.
type tester interface {
	require.TestingT
	Helper()
}

func testConfig(files vfs.FS) index.ResolvedConfig {
	return index.ResolvedConfig{
		Families: query.Families(),
		RowStore: rowstore.Config{
			FS: files, Dir: "index", Layout: index.Layout, CacheBytes: 8 << 20, MemTableBytes: 1 << 20,
			Logger: slog.New(slog.DiscardHandler), Exit: os.Exit,
		},
		MaxBatchEvents:    8192,
		MaxBatchEffects:   100,
		MaxBatchBytes:     1 << 20,
		RowCacheBytes:     8 << 10,
		FilterBytes:       1 << 20,
		EventCacheBytes:   index.MinEventCacheBytes,
		RecentBytes:       1 << 20,
		MaxDeferredGroups: 20,
		SnapshotPartBytes: 1 << 10,
	}
}

func openTest(t tester, c index.ResolvedConfig) *index.Store {
	t.Helper()
	s, err := index.OpenResolved(c)
	require.NoError(t, err)
	return s
}

func follow(t tester, s *index.Store, j *journal) *index.Follower {
	t.Helper()
	f, err := s.Follow(j.name, j.store)
	require.NoError(t, err)
	return f
}

// catchUp waits until the follower has reached the end of the journal.
func (j *journal) catchUp(f *index.Follower) {
	j.t.Helper()
	f.Wake()
	require.NoError(j.t, f.WaitForSize(context.Background(), j.head.Size))
}

// journal is a log that a test builds from event bodies.
type journal struct {
	t        tester
	name     string
	database *memory.Database
	store    storage.Store
	head     storage.Head
	entries  [][]byte
	hashes   []storage.Hash // event_hash of each entry
	counted  [][]string     // for each entry, the counters that it increments according to the naive model
	// sameTime is the number of events that share a timestamp; 0 means 1.
	sameTime uint64
	// forgetful means that the journal does not keep the entries, and cannot be checked. Only the store
	// contains them.
	forgetful bool
	index     *index.Store // the index that folds the journal; may be nil
}

func newJournal(t tester, name string) *journal {
	t.Helper()
	database := memory.New()
	store, err := database.CreateLedger(context.Background(), storage.LedgerInfo{Name: name})
	require.NoError(t, err)
	return &journal{t: t, name: name, database: database, store: store}
}

// append commits one event for each body.
func (j *journal) append(bodies ...string) {
	j.t.Helper()
	next := storage.Batch{Head: j.head}
	for _, body := range bodies {
		entry := append(next.Head.Tip[:len(next.Head.Tip):len(next.Head.Tip)], body...)
		entry = record.AppendBodySuffix(entry, next.Head.Size, time.UnixMicro(int64(next.Head.Size/max(1, j.sameTime))))
		next.Head.Size++
		next.Head.Tip = sha256.Sum256(entry)
		next.Entries = append(next.Entries, entry)
		if j.forgetful {
			continue
		}
		j.hashes = append(j.hashes, next.Head.Tip)
		j.counted = append(j.counted, countNaively(j.t, entry))
	}
	require.NoError(j.t, j.store.Commit(context.Background(), j.head, next))
	if !j.forgetful {
		j.entries = append(j.entries, next.Entries...)
	}
	j.head = next.Head
}

// check compares a follower with the naive model of the log up to the follower's Size. The follower
// may still be running.
func (j *journal) check(f *index.Follower) {
	j.t.Helper()
	counted, size := f.Counts()
	require.LessOrEqual(j.t, size, j.head.Size)
	for seq, hash := range j.hashes {
		found, err := f.FindByHash(context.Background(), hash, 0)
		if err != nil {
			require.ErrorIs(j.t, err, storage.ErrNotFound)
			require.GreaterOrEqual(j.t, uint64(seq), size)
			continue
		}
		require.Equal(j.t, uint64(seq), found)
		require.Less(j.t, uint64(seq), f.Size())
	}
	want := make(map[string]uint64)
	for _, names := range j.counted[:size] {
		for _, name := range names {
			want[name]++
		}
	}
	require.Equal(j.t, want, named(counted))
}

func countsOf(f *index.Follower) counters.Counts {
	counted, _ := f.Counts()
	return counted
}

// testKeys is the keyspace of the ledger in an index that has only one ledger.
var testKeys = rowstore.KeyspaceFromNumber(1)

// dump returns one line for each key of an index.
func dump(t tester, s *index.Store) []string {
	t.Helper()
	all, err := s.RowStore().Dump()
	require.NoError(t, err)
	return all
}

// requireSame fails unless two dumps are equal. It reports the first difference.
func requireSame(t tester, want, got []string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "line %d of the dump", i)
	}
	require.Len(t, got, len(want))
}

// refold folds the whole log into a new index without interruption, and returns a dump of that
// index.
func (j *journal) refold() []string {
	j.t.Helper()
	s := openTest(j.t, testConfig(vfs.NewMem()))
	j.catchUp(follow(j.t, s, j))
	all := dump(j.t, s)
	require.NoError(j.t, s.Close())
	return all
}

// requireEvents fails unless an index with a single ledger contains one hash key for each event. If
// there are events, the index must also contain a cursor.
func requireEvents(t tester, s *index.Store, events uint64) {
	t.Helper()
	var hashes, cursors uint64
	for _, line := range dump(t, s) {
		switch {
		case strings.HasPrefix(line, fmt.Sprintf("default %02x", 0x03)):
			hashes++
		case strings.HasPrefix(line, fmt.Sprintf("default %02x", 0x01)):
			cursors++
		}
	}
	require.Equal(t, events, hashes)
	require.Equal(t, min(events, 1), cursors)
}

var poster = record.EventContext{Actor: "tester", Ledger: "default"}

// ledgerLimits holds the record limits of a ledger that has a payload-member secret. The
// secret is fixed so that the rows are the same in every run.
var ledgerLimits = record.DefaultLimits().WithPayloadMemberSecret(new(members.Secret))

// posted returns the event body for a record with the given kind and text.
func posted(t tester, kind record.Kind, text string) string {
	t.Helper()
	r, err := ledgerLimits.ParseRecord(kind, []byte(text))
	require.NoError(t, err, text)
	defer r.Release()
	return string(r.AppendBodyPrefix(nil, poster))
}

// refused returns the body of the event that records the refusal of a record.
func refused(t tester, kind record.Kind, text string, why record.RefusalReason) string {
	t.Helper()
	r, err := ledgerLimits.ParseRecord(kind, []byte(text))
	require.NoError(t, err, text)
	defer r.Release()
	e := poster
	e.IdempotencyKeyDigest = &storage.Hash{1}
	return string(r.AppendRefusal(nil, e, why, 0))
}

// rawBody returns an event body with arbitrary contents, such as another server might write. checks
// and detail are JSON.
func rawBody(kind, checks, detail string) string {
	return fmt.Sprintf(`{"actor":"tester","checks":%s,"kind":%q,"ledger":"default","record":%s,"rules":1,`, checks, kind, detail)
}

// plain returns the event body for the n-th in a series of distinct IPC records.
func plain(t tester, n int) string {
	t.Helper()
	return posted(t, record.KindIPCRecord, fmt.Sprintf(
		`{"payload":{"seed":%d,"q":"why?"},"system_prompt":"be kind","output":"because %d","model":"m","temperature":0.5,"max_tokens":9}`, n%7, n))
}

func plains(t tester, from, to int) []string {
	t.Helper()
	var bodies []string
	for n := from; n < to; n++ {
		bodies = append(bodies, plain(t, n))
	}
	return bodies
}

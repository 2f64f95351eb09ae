package indextest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
	"colophon/storage"
	"colophon/storage/memory"
)

func TestFollowMisused(t *testing.T) {
	s := openTest(t, testConfig(vfs.NewMem()))
	log := newJournal(t, "default")
	for _, name := range []string{"", strings.Repeat("x", 256), "\xff"} {
		_, err := s.Follow(name, log.store)
		require.ErrorContains(t, err, "1 to 255 bytes")
	}
	f := follow(t, s, log)
	require.Equal(t, "default", f.Name())
	require.Equal(t, []*index.Follower{f}, s.Followers())
	_, err := s.Follow("default", log.store)
	require.ErrorContains(t, err, "already followed")
	f.Close()
	require.Empty(t, s.Followers())
	f = follow(t, s, log)
	require.NoError(t, s.Close())
	require.NoError(t, f.Err(), "closing the store closes the follower without an error")
	require.ErrorIs(t, s.Close(), index.ErrClosed)
	_, err = s.Follow("default", log.store)
	require.ErrorIs(t, err, index.ErrClosed)
	_, err = f.FindByHash(t.Context(), storage.Hash{}, 0)
	require.ErrorIs(t, err, index.ErrClosed)
}

// If a log differs from the one that was indexed under the same name, for example after a restore,
// the index is rebuilt.
func TestForeignLogIsRebuilt(t *testing.T) {
	mine, neighbour := newJournal(t, "default"), newJournal(t, "defaults")
	mine.append(plains(t, 0, 30)...)
	neighbour.append(plains(t, 100, 110)...)
	older, diverged, empty := newJournal(t, "default"), newJournal(t, "default"), newJournal(t, "default")
	older.append(plains(t, 0, 20)...)
	diverged.append(plains(t, 0, 20)...)
	diverged.append(plains(t, 500, 540)...)
	for name, theirs := range map[string]*journal{"older": older, "diverged": diverged, "empty": empty} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, testConfig(vfs.NewMem()))
			beside := follow(t, s, neighbour)
			f := follow(t, s, mine)
			mine.catchUp(f)
			neighbour.catchUp(beside)
			f.Close()

			f = follow(t, s, theirs)
			theirs.catchUp(f)
			theirs.check(f)
			_, err := f.FindByHash(t.Context(), mine.hashes[25], 0)
			require.ErrorIs(t, err, storage.ErrNotFound)
			neighbour.check(beside)
			require.NoError(t, s.Close())
		})
	}
}

func TestDamagedCursorIsRebuilt(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 30)...)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	f.Close()
	require.NoError(t, s.RowStore().DB().Set(testKeys.AppendPrefix(nil, 0x01), []byte("nonsense"), engine.NoSync))
	f = follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	require.NoError(t, s.Close())
}

// An event that cannot be read stops the fold at that event, and has no other effect.
func TestUnreadableEvent(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 12)...)
	link := func(body string) []byte { return append(log.hashes[6][:], body...) }
	cases := map[string]struct {
		entry []byte // nil means that the entry is missing
		why   string
	}{
		"missing":       {nil, "missing"},
		"short":         {[]byte("abc"), "3 bytes"},
		"not JSON":      {link(`{"kind":`), "invalid JSON"},
		"no kind":       {link(`{"checks":{}}`), "no kind"},
		"not linked":    {log.entries[3], "prev_event_hash is"},
		"not a kind":    {link(`{"kind":1}`), "no kind"},
		"not UTF-8":     {link("{\"kind\":\"\xff\"}"), "invalid UTF-8"},
		"not an object": {link(`["kind"]`), "no kind"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			damaged := newJournal(t, "default")
			damaged.append(plains(t, 0, 12)...)
			tamper, err := damaged.database.Tamperer("default")
			require.NoError(t, err)
			if test.entry == nil {
				require.NoError(t, tamper.DeleteEntry(7))
			} else {
				require.NoError(t, tamper.SetEntry(7, test.entry))
			}
			var messages bytes.Buffer
			c := testConfig(vfs.NewMem())
			c.RowStore.Logger = slog.New(slog.NewTextHandler(&messages, &slog.HandlerOptions{Level: slog.LevelError}))
			s := openTest(t, c)
			f := follow(t, s, damaged)
			err = f.WaitForSize(t.Context(), 8)
			require.ErrorContains(t, err, "adding event 7 to the index")
			require.ErrorContains(t, err, test.why)
			require.Equal(t, err, f.Err())
			require.Equal(t, uint64(7), f.Size())
			require.NoError(t, f.WaitForSize(t.Context(), 7))
			f.Wake()
			damaged.check(f)
			require.NoError(t, s.Close())
			require.Equal(t, err, f.Err())
			require.Equal(t, 1, strings.Count(messages.String(), "level=ERROR"), messages.String())
		})
	}
}

var errReader = errors.New("the log cannot be read")

// unreadable is a log in which the named method returns errReader.
type unreadable struct {
	storage.Reader
	method string
}

func (u unreadable) Head(ctx context.Context) (storage.Head, error) {
	if u.method == "head" {
		return storage.Head{}, errReader
	}
	return u.Reader.Head(ctx)
}

func (u unreadable) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if u.method == "entry" {
		return nil, errReader
	}
	return u.Reader.Entry(ctx, seq)
}

func (u unreadable) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	if u.method == "entries" {
		return func(yield func(storage.Entry, error) bool) { yield(storage.Entry{}, errReader) }
	}
	return u.Reader.Entries(ctx, from)
}

// If the log returns an error, the log's index is not discarded.
func TestUnreadableLog(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 12)...)
	files := closedIndex(t, log)
	s := openTest(t, testConfig(files))
	for _, method := range []string{"head", "entry", "entries"} {
		f, err := s.Follow("default", unreadable{log.store, method})
		require.NoError(t, err)
		require.ErrorIs(t, f.WaitForSize(t.Context(), 13), errReader)
		require.ErrorIs(t, f.Err(), errReader)
		f.Close()
	}
	f := follow(t, s, log)
	require.Equal(t, uint64(12), f.Size())
	log.check(f)
	require.NoError(t, s.Close())
}

// watched is a log that records the from argument of each call to Entries, and counts the entries
// that those calls return.
type watched struct {
	storage.Reader
	from    []uint64 // owned by the follower's goroutine until the follower is closed
	entries atomic.Int64
}

func (w *watched) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	w.from = append(w.from, from)
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range w.Reader.Entries(ctx, from) {
			if err == nil {
				w.entries.Add(1)
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// A batch ends when it reaches the maximum number of events or bytes. Events that were read ahead
// are kept for the next batch. Only an entry that arrives just after the batch has ended is read
// again.
func TestBatchesAreBounded(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 7)...)
	for _, bounds := range []struct {
		events, bytes int
		sizes         []uint64
	}{
		{3, 1 << 20, []uint64{3, 6, 7}},
		{100, 1, []uint64{1, 2, 3, 4, 5, 6, 7}},
	} {
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents, c.MaxBatchBytes, c.RowCacheBytes = bounds.events, bounds.bytes, 1<<20
		s := openTest(t, c)
		w := &watched{Reader: log.store}
		f, err := s.AddStoppedFollower(t.Context(), log.name, w)
		require.NoError(t, err)
		var sizes []uint64
		for more := true; more && f.Size() < log.head.Size; sizes = append(sizes, f.Size()) {
			more, err = f.FoldBatch(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, bounds.sizes, sizes)
		require.LessOrEqual(t, w.entries.Load(), int64(7+len(sizes)))
		log.check(f)
		f.Close()
		require.NoError(t, s.Close())
	}
}

// A follower reads from the log only the entries that AddCommit did not give it.
func TestAddCommit(t *testing.T) {
	s := openTest(t, testConfig(vfs.NewMem()))
	log := newJournal(t, "default")
	w := &watched{Reader: log.store}
	f, err := s.AddStoppedFollower(t.Context(), log.name, w)
	require.NoError(t, err)
	extend := func(n uint64) { log.append(plains(t, int(log.head.Size), int(log.head.Size+n))...) }
	fold := func(n uint64) {
		first := log.head.Size
		extend(n)
		f.AddCommit(first, log.entries[first:])
		for f.Size() < log.head.Size {
			_, err := f.FoldBatch(t.Context())
			require.NoError(t, err)
		}
	}
	for n := uint64(1); n < 200; n += 60 {
		fold(n)
	}
	require.Zero(t, w.entries.Load(), "entries read from the log")
	extend(7)
	fold(5)
	require.Equal(t, int64(7), w.entries.Load())
	fold(5)
	require.Equal(t, int64(7), w.entries.Load())
	log.check(f)
	f.Close()
	require.NoError(t, s.Close())
}

func TestWaitEnds(t *testing.T) {
	s := openTest(t, testConfig(vfs.NewMem()))
	log := newJournal(t, "default")
	log.append(plains(t, 0, 3)...)
	f := follow(t, s, log)
	log.catchUp(f)
	require.NoError(t, f.Err())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.WaitForSize(ctx, 4), context.Canceled)
	require.NoError(t, f.WaitForSize(ctx, 3), "the event is already folded")

	waiting := make(chan error)
	go func() { waiting <- f.WaitForSize(context.Background(), 4) }()
	f.Close()
	require.ErrorIs(t, <-waiting, index.ErrClosed)
	require.NoError(t, f.Err())
	f.Wake()
	f.Close()
	log.check(f)
	require.NoError(t, s.Close())
}

// Writers, Wake, WaitForSize, and readers run concurrently. WaitForSize always returns, and the
// event that it waited for can then be read.
func TestWaitersAndWakers(t *testing.T) {
	const events, waiters = 400, 8
	c := testConfig(vfs.NewMem())
	c.MaxBatchEvents = 3
	s := openTest(t, c)
	log := newJournal(t, "default")
	f := follow(t, s, log)
	hashes := hashesOf(t, events)
	var group sync.WaitGroup
	for w := range waiters {
		group.Go(func() {
			for seq := w; seq < events; seq += waiters {
				if err := f.WaitForSize(context.Background(), uint64(seq)+1); err != nil {
					t.Error(err)
				}
				if found, err := f.FindByHash(context.Background(), hashes[seq], 0); err != nil || found != uint64(seq) {
					t.Errorf("event %d found at %d: %v", seq, found, err)
				}
				if counted, size := f.Counts(); counted[counters.SeriesOf(counters.MetricRecords, string(record.KindIPCRecord))] != size {
					t.Errorf("the counters are %v at size %d", counted, size)
				}
			}
		})
	}
	for n := range events {
		log.append(plain(t, n))
		f.Wake()
	}
	group.Wait()
	require.NoError(t, s.Close())
}

// hashesOf returns the event hashes of a log with the given number of plain events.
func hashesOf(t *testing.T, events int) []storage.Hash {
	t.Helper()
	log := newJournal(t, "default")
	log.append(plains(t, 0, events)...)
	return log.hashes
}

// A follower pauses between folds while no reader is waiting. WaitForSize and Close end the pause.
func TestPause(t *testing.T) {
	c := testConfig(vfs.NewMem())
	c.MinFoldInterval = time.Hour
	s := openTest(t, c)
	log := newJournal(t, "default")
	f := follow(t, s, log)
	for n := range 50 {
		log.append(plain(t, n))
		f.Wake()
	}
	log.catchUp(f)
	for n := range 50 {
		log.append(plain(t, 50+n))
		f.Wake()
		if n%7 == 0 {
			log.catchUp(f)
		}
	}
	log.catchUp(f)
	log.check(f)
	log.append(plain(t, 100))
	f.Wake()
	require.NoError(t, s.Close())
	require.Equal(t, uint64(100), f.Size())
}

// A follower that is closed in the middle of a fold has stored everything that it has
// published.
func TestCloseInTheMiddleOfAFold(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 2000)...)
	c := testConfig(vfs.NewMem())
	c.MaxBatchEvents = 10
	s := openTest(t, c)
	for size := uint64(1); size < log.head.Size; size += 300 {
		f := follow(t, s, log)
		require.NoError(t, f.WaitForSize(t.Context(), size))
		f.Close()
		reached := f.Size()
		log.check(f)
		f = follow(t, s, log)
		require.GreaterOrEqual(t, f.Size(), reached)
		f.Close()
	}
	f := follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	require.NoError(t, s.Close())
}

// Ledgers whose names have a common prefix do not see each other's events.
func TestLedgersAreSeparate(t *testing.T) {
	s := openTest(t, testConfig(vfs.NewMem()))
	database := memory.New()
	var logs []*journal
	for i, name := range []string{"a", "aa", "ab", "b"} {
		store, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: name})
		require.NoError(t, err)
		log := &journal{t: t, name: name, database: database, store: store}
		log.append(plains(t, 10*i, 10*i+5+i)...)
		log.catchUp(follow(t, s, log))
		logs = append(logs, log)
	}
	for _, f := range s.Followers() {
		for _, log := range logs {
			if f.Name() == log.name {
				log.check(f)
				continue
			}
			_, err := f.FindByHash(t.Context(), log.hashes[0], 0)
			require.ErrorIs(t, err, storage.ErrNotFound)
		}
	}
	require.NoError(t, s.Close())
}

package indextest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/storage"
	"colophon/storage/pebble/pebbletest"
)

// poison corrupts an index with a single ledger. In each dimension, it adds one key that no fold
// would write. It also overwrites the values of some existing keys.
func poison(t tester, s *index.Store) {
	t.Helper()
	for d := range 256 {
		row := append(testKeys.AppendPrefix(nil, rowstore.Dimension(d)), make([]byte, index.SchemaOf(query.Families())[d])...)
		require.NoError(t, s.RowStore().DB().Set(rowstore.AppendVersion(row, 3), []byte("poison"), engine.NoSync))
	}
	it, err := s.RowStore().DB().NewIter(&engine.IterOptions{LowerBound: testKeys[:], UpperBound: testKeys.UpperBound()})
	require.NoError(t, err)
	for n, ok := 0, it.First(); ok; n, ok = n+1, it.Next() {
		if n%3 == 0 {
			require.NoError(t, s.RowStore().DB().Set(slices.Clone(it.Key()), []byte("poison"), engine.NoSync))
		}
	}
	require.NoError(t, it.Close())
}

// refoldAll refolds the whole journal into an index.
func (j *journal) refoldAll(s *index.Store) {
	j.t.Helper()
	done := uint64(0)
	f, err := s.Refold(context.Background(), j.name, j.store, j.head.Size, func(n uint64) {
		require.Greater(j.t, n, done)
		done = n
	})
	require.NoError(j.t, err)
	require.Equal(j.t, j.head.Size, done)
	require.Equal(j.t, j.head.Size, f.Size())
	j.check(f)
	f.Close()
}

// Refold produces the same index as a first fold, regardless of what the index contained before. It
// does not change the rows of other ledgers.
func TestRefold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.drawEvents(t, 40)
		neighbour := newJournal(t, "neighbour")
		neighbour.append(plains(t, 0, 3)...)
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents = rapid.IntRange(1, 9).Draw(t, "batch")
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		log.catchUp(f)
		other := follow(t, s, neighbour)
		neighbour.catchUp(other)
		before := dump(t, s)
		f.Close()
		poison(t, s)
		require.NotEqual(t, before, dump(t, s))

		log.refoldAll(s)
		requireSame(t, before, dump(t, s))
		neighbour.check(other)
		f = follow(t, s, log)
		log.catchUp(f)
		log.check(f)
	})
}

// If a power failure interrupts a refold at any moment, the next refold repairs the index.
func TestRefoldAfterPowerCuts(t *testing.T) {
	log := newJournal(t, "default")
	for n := range 100 { // many groups of several runs, some of which are ranked during the fold
		log.append(plain(t, n), runBody(t, fmt.Sprint("m", n%30), fmt.Sprint(n%50), fmt.Sprintf(`,"labels":{"a":"%d"}`, n%40)))
	}
	files := pebbletest.NewCrashFS()
	c := testConfig(files.FS())
	c.MaxBatchEvents = 7
	s := openTest(t, c)
	log.catchUp(follow(t, s, log))
	poison(t, s)
	require.NoError(t, s.Close())

	var cuts []*pebbletest.CrashFS
	var mu sync.Mutex // guards cuts
	files.BeforeEachOperation(func(operation int) {
		cut := files.AfterPowerCut([]int{100, 0, 50}[operation%3], uint64(operation))
		mu.Lock()
		defer mu.Unlock()
		cuts = append(cuts, cut)
	})
	s = openTest(t, c)
	f, err := s.Refold(t.Context(), log.name, log.store, log.head.Size, func(uint64) {
		_, err := s.RowStore().DB().AsyncFlush()
		require.NoError(t, err)
	})
	require.NoError(t, err)
	f.Close()
	files.BeforeEachOperation(nil)
	require.NoError(t, s.Close())

	whole := log.refold()
	require.Greater(t, len(cuts), 20)
	// Checking one cut takes as long as everything above, so the test checks only a few dozen cuts,
	// spread evenly from the first to the last.
	for i, started := 0, false; i < len(cuts); i, started = i+1+len(cuts)/48, !started {
		cut := cuts[i]
		c.RowStore.FS = cut.FS()
		s := openTest(t, c)
		if started {
			log.catchUp(follow(t, s, log)) // follows the log as a server does, without an explicit refold
		} else {
			log.refoldAll(s)
		}
		requireSame(t, whole, dump(t, s))
		require.NoError(t, s.Close())
	}
}

// After a power failure, rows that a refold has begun to replace do not reappear, even if none of
// the new index has been stored yet.
func TestRefoldReplacesAtOnce(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 20)...)
	files := pebbletest.NewCrashFS()
	c := testConfig(files.FS())
	s := openTest(t, c)
	log.catchUp(follow(t, s, log))
	row := append(testKeys.AppendPrefix(nil, records.PostingsDimension), make([]byte, index.SchemaOf(query.Families())[records.PostingsDimension])...)
	require.NoError(t, s.RowStore().DB().Set(rowstore.AppendVersion(row, 3), []byte("poison"), engine.NoSync))
	require.NoError(t, s.Close())

	s = openTest(t, c)
	f, err := s.Refold(t.Context(), log.name, log.store, log.head.Size, func(uint64) {})
	require.NoError(t, err)
	f.Close()
	cut := files.AfterPowerCut(0, 1)
	require.NoError(t, s.Close())
	c.RowStore.FS = cut.FS()
	s = openTest(t, c)
	log.catchUp(follow(t, s, log))
	requireSame(t, log.refold(), dump(t, s))
	require.NoError(t, s.Close())
}

// No group is queued for ranking twice, because SingleDelete requires that a key was set exactly
// once.
func TestGroupsAreRankedOnce(t *testing.T) {
	log := newJournal(t, "default")
	repeated := posted(t, record.KindIPCRecord, `{"payload":{"q":"why?"},"system_prompt":"kind","seed":1,"max_tokens":9,"temperature":0.7,"model":"n"}`)
	log.append(
		plain(t, 0),
		runBody(t, "m", "yes", ""), stateOf(1, "failed"), stateOf(1, "live"),
		runBody(t, "m", "no", ""), stateOf(4, "failed"), stateOf(4, "live"), runBody(t, "m", "no", ""),
		runBody(t, "n", "yes", ""), repeated, repeated, runBody(t, "n", "yes", ""),
	)
	s := openTest(t, testConfig(vfs.NewMem()))
	defer func() { require.NoError(t, s.Close()) }()
	f, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
	require.NoError(t, err)
	defer f.Close()
	f.CurrentFold().DeferWork()
	for f.Size() < log.head.Size { // state changes end a batch
		more, err := f.FoldBatch(t.Context())
		require.NoError(t, err)
		require.True(t, more)
	}
	changed := make(map[rowstore.Identity]int)
	waiting := index.DeriverOf[*groups.Deriver](f.CurrentFold()).UnrankedGroups()
	for _, id := range waiting {
		changed[id]++
	}
	require.Len(t, changed, len(waiting))
	require.Contains(t, changed, rowstore.IdentityOf([]byte("model"), []byte("m")))
	require.Contains(t, changed, rowstore.IdentityOf([]byte("model"), []byte("n")))
}

// Refold stops at the given size, regardless of where its batches end.
func TestRefoldUpToASize(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 100)...)
	c := testConfig(vfs.NewMem())
	c.MaxBatchEvents = 8
	s := openTest(t, c)
	for _, size := range []uint64{0, 1, 7, 8, 9, 64, 65, 99, 100} {
		first := newJournal(t, "default")
		first.append(plains(t, 0, int(size))...)
		f, err := s.Refold(t.Context(), log.name, log.store, size, func(uint64) {})
		require.NoError(t, err)
		require.Equal(t, size, f.Size())
		log.check(f)
		requireSame(t, first.refold(), dump(t, s))
		require.NoError(t, f.WaitForSize(t.Context(), size))
		require.ErrorIs(t, f.WaitForSize(t.Context(), size+1), index.ErrClosed)
		f.Close()
	}
	f, err := s.Refold(t.Context(), log.name, log.store, 101, func(uint64) {})
	require.ErrorContains(t, err, "the log ends before the requested size")
	require.Nil(t, f)
	log.catchUp(follow(t, s, log))
	requireSame(t, log.refold(), dump(t, s)) // compares with a fold from the beginning
	_, err = s.Refold(t.Context(), log.name, log.store, 100, func(uint64) {})
	require.ErrorContains(t, err, "already followed")
	require.NoError(t, s.Close())
}

func TestRefoldFails(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 100)...)
	files := vfs.NewMem()
	c := testConfig(files)
	c.MaxBatchEvents, c.RowCacheBytes = 8, 1<<20 // no batch ends before its eighth event
	s := openTest(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Refold(ctx, log.name, log.store, 100, func(done uint64) {
		if done == 24 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "stopped at size 24")

	_, err = s.Refold(t.Context(), log.name, unreadable{log.store, "entries"}, 100, func(uint64) {})
	require.ErrorIs(t, err, errReader)

	files.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: rowstore.MinFreeBytes - 1, TotalBytes: 1 << 40})
	_, err = s.Refold(t.Context(), log.name, log.store, 100, func(uint64) {})
	require.ErrorIs(t, err, storage.ErrNoSpace)
	require.NoError(t, s.Close())
}

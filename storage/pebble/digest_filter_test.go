package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/faulty"
)

// filterLookups returns how often table filters were consulted while do ran.
func filterLookups(db *Database, do func()) int64 {
	before := db.engine.Metrics().Filter
	do()
	after := db.engine.Metrics().Filter
	return after.Hits + after.Misses - before.Hits - before.Misses
}

// Once the digest filter has been filled, KeyClaims looks up almost no unknown digests. The filter
// then contains the digests that this process and earlier processes have written.
func TestNewKeysAreNotLookedUp(t *testing.T) {
	const records, lookups = 2*fillKeys + 2000, 1000 // more keys than one iterator reads
	ctx, files, text := t.Context(), vfs.NewMem(), prose(1<<20)
	db, l := newLedger(t, files)
	fill := func(l *ledger, old storage.Head) storage.Head {
		b := benchmarkBatch(old, records/2, text)
		require.NoError(t, l.Commit(ctx, old, b))
		require.NoError(t, l.db.engine.Flush())
		return b.Head
	}
	head := fill(l, storage.Head{})
	require.NoError(t, db.Close())

	db = openOn(t, files)
	defer func() { require.NoError(t, db.Close()) }()
	reopened, err := db.Ledger(ctx, "default")
	require.NoError(t, err)
	l = reopened.(*ledger)
	fill(l, head)
	db.fillers.running.Wait()

	var all []storage.Hash
	for seq := range uint64(records) {
		require.True(t, l.digests.mayContain(digestOf(seq)))
		require.True(t, l.digests.mayContain(digestOf(1<<62+seq)))
		all = append(all, digestOf(^seq))
	}
	held, err := l.KeyClaims(ctx, all)
	require.NoError(t, err)
	require.Len(t, held, records)
	fresh := make([]storage.Hash, lookups)
	for i := range fresh {
		fresh[i] = digestOf(uint64(records + i))
	}
	require.Less(t, filterLookups(db, func() {
		held, err := l.KeyClaims(ctx, fresh)
		require.NoError(t, err)
		require.Empty(t, held)
	}), int64(lookups/10))
}

// mayContain returns true until the stored digests have been read. It always returns true if they
// do not fit into memory or cannot be read.
func TestUnreadDigestsAreLookedUp(t *testing.T) {
	db, l := newLedger(t, vfs.NewMem())
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, benchmarkBatch(storage.Head{}, 100, prose(1<<20))))

	never := digestOf(1 << 50)
	require.True(t, (&digestFilter{fillers: db.fillers, number: l.number}).mayContain(never))
	db.fillers.running.Wait()
	require.False(t, l.digests.mayContain(never))

	db.fillers.spare.Store(0)
	small := db.fillers.newDigestFilter("default", l.number)
	small.mayContain(never)
	db.fillers.running.Wait()
	require.True(t, small.mayContain(never))

	db.fillers.stop()
	ended := db.fillers.newDigestFilter("default", l.number)
	ended.mayContain(never)
	db.fillers.running.Wait()
	require.True(t, ended.mayContain(never))
}

// If a read fails while a filter is being filled, the filter releases its memory, and mayContain
// always returns true after that.
func TestFailedFillExcludesNothing(t *testing.T) {
	const records = 4000
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, benchmarkBatch(storage.Head{}, records, prose(1<<20))))
	require.NoError(t, db.engine.Flush())
	require.NoError(t, db.Close())
	broken := 0
	for skip := range 60 {
		faults := faulty.New(faulty.Plan{Mode: faulty.ModeFail, Calls: []string{faulty.CallOpen, faulty.CallRead}, FilePattern: "*.sst", SkipCount: skip})
		copied := vfs.NewMem()
		_, err := vfs.Clone(files, copied, testDir, testDir)
		require.NoError(t, err)
		db, err := Open(t.Context(), testConfig(faulty.NewFS(copied, faults)))
		if err != nil {
			continue
		}
		store, err := db.Ledger(t.Context(), "default")
		if err != nil {
			require.NoError(t, db.Close())
			continue
		}
		l := store.(*ledger)
		l.digests.mayContain(digestOf(0))
		db.fillers.running.Wait()
		if !l.digests.filled {
			broken++
			require.Equal(t, testConfig(copied).filterBytes(), db.fillers.spare.Load())
		}
		for seq := range uint64(records) {
			require.True(t, l.digests.mayContain(digestOf(seq)))
			require.True(t, l.digests.mayContain(digestOf(^seq)))
		}
		require.NoError(t, db.Close())
	}
	require.Positive(t, broken)
}

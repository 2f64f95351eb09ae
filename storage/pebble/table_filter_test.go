package pebble

import (
	"slices"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// If there is no digest filter, table filters exclude new keys, so that almost no block is read.
// They never exclude stored keys.
func TestFreshKeysAreFiltered(t *testing.T) {
	const records, asked = 4000, 1000
	db, l := newLedger(t, vfs.NewMem())
	db.fillers.spare.Store(0)
	text := prose(1 << 20)
	ctx := t.Context()
	var head storage.Head
	for head.Size < records {
		b := benchmarkBatch(head, 500, text)
		require.NoError(t, l.Commit(ctx, head, b))
		head = b.Head
		require.NoError(t, db.engine.Flush())
	}
	for _, rewrite := range []bool{false, true} {
		if rewrite {
			require.NoError(t, db.engine.Compact(ctx, []byte{0}, []byte{0xff}, false))
		}
		held, err := l.KeyClaims(ctx, []storage.Hash{digestOf(^uint64(0)), digestOf(^uint64(records - 1))})
		require.NoError(t, err)
		require.Len(t, held, 2)
		_, err = l.Content(ctx, digestOf(records-1))
		require.NoError(t, err)
		fresh := make([]storage.Hash, asked)
		for i := range fresh {
			fresh[i] = digestOf(uint64(records + i))
		}
		before := db.engine.Metrics().Filter
		none, err := l.KeyClaims(ctx, fresh)
		require.NoError(t, err)
		require.Empty(t, none)
		after := db.engine.Metrics().Filter
		require.Greater(t, after.Hits-before.Hits, int64(asked/2))
		require.Less(t, after.Misses-before.Misses, int64(asked/20))
	}
}

// Filters stay small. A record has seven keys, and the filters contain only the three that have a
// digest.
func TestFiltersAreSmall(t *testing.T) {
	const records = 4000
	db, l := newLedger(t, vfs.NewMem())
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, benchmarkBatch(storage.Head{}, records, prose(1<<20))))
	require.NoError(t, db.engine.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	levels, err := db.engine.SSTables(engine.WithProperties())
	require.NoError(t, err)
	var bytes uint64
	for _, table := range slices.Concat(levels...) {
		bytes += table.Properties.FilterSize
	}
	require.InEpsilon(t, 3*records*lastFilterBits/8, bytes, 0.1)
}

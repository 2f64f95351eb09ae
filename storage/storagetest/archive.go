package storagetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// batchWithTiles returns a batch that extends old by n entries, including the tiles of levels 0 and 1 that
// cover them.
func batchWithTiles(old storage.Head, n int) storage.Batch {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("entry %d", old.Size+uint64(i))
	}
	b := follow(old, texts...)
	for index := old.Size / storage.HashesPerTile; index*storage.HashesPerTile < b.Head.Size; index++ {
		b.Tiles = append(b.Tiles, tile(0, index, int(min(storage.HashesPerTile, b.Head.Size-index*storage.HashesPerTile))))
	}
	if full := int(b.Head.Size / storage.HashesPerTile); full > 0 {
		b.Tiles = append(b.Tiles, tile(1, 0, full))
	}
	return b
}

func archiver(t *testing.T, store storage.Store) storage.Archiver {
	t.Helper()
	a, can := store.(storage.Archiver)
	require.True(t, can, "the store does not support archiving")
	return a
}

// requireArchived requires that err wraps an ArchivedError that contains want, and that it wraps
// neither ErrDamaged nor ErrNotFound.
func requireArchived(t *testing.T, err error, want storage.ArchivedRange) {
	t.Helper()
	var archived *storage.ArchivedError
	require.ErrorAs(t, err, &archived)
	require.Equal(t, want, archived.ArchivedRange)
	require.NotErrorIs(t, err, storage.ErrDamaged)
	require.NotErrorIs(t, err, storage.ErrNotFound)
}

func testArchive(t *testing.T, s *suite) {
	db := s.open(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	store := archiver(t, create(t, db, "default"))
	other := create(t, db, "other")
	commit(t, other, storage.Head{}, batchWithTiles(storage.Head{}, 300))
	head := commit(t, store, storage.Head{}, batchWithTiles(storage.Head{}, 900))
	ctx := t.Context()

	first := storage.ArchivedRange{EndSeq: 256, URL: "file:///first"}
	require.NoError(t, store.Archive(ctx, first, []uint64{0, 7}))
	for _, wrong := range []storage.ArchivedRange{{EndSeq: 100}, {EndSeq: 1024}, {EndSeq: 0}} {
		require.Error(t, store.Archive(ctx, wrong, nil), "%d", wrong.EndSeq)
	}
	require.ErrorIs(t, store.Archive(ctx, storage.ArchivedRange{}, nil), storage.ErrConflict)
	_, err := store.Entry(ctx, 256)
	require.NoError(t, err)

	a := storage.ArchivedRange{EndSeq: 768, URL: "file:///second"}
	for range 2 { // the second call must change nothing
		require.NoError(t, store.Archive(ctx, a, []uint64{300, 767, 5000}))
	}
	check := func(store storage.Store, head storage.Head) {
		t.Helper()
		value, err := store.Setting(ctx, storage.ArchiveSetting)
		require.NoError(t, err)
		stored, err := storage.ParseArchivedRange(value)
		require.NoError(t, err)
		require.Equal(t, a, stored)
		for _, seq := range []uint64{0, 7, 300, 767, 768, 899} {
			entry, err := store.Entry(ctx, seq)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("entry %d", seq), string(entry))
		}
		for _, seq := range []uint64{1, 6, 8, 255, 256, 299, 301, 766} {
			_, err := store.Entry(ctx, seq)
			requireArchived(t, err, a)
		}
		for index := range uint64(3) {
			_, err := store.Tile(ctx, 0, index)
			requireArchived(t, err, a)
		}
		_, err = store.Tile(ctx, 0, 3)
		require.NoError(t, err)
		_, err = store.Tile(ctx, 1, 0)
		require.NoError(t, err)
		for _, none := range []struct {
			level uint8
			index uint64
		}{{0, 9}, {1, 1}, {2, 0}} {
			_, err := store.Tile(ctx, none.level, none.index)
			require.ErrorIs(t, err, storage.ErrNotFound)
		}
		for from, want := range map[uint64]uint64{0: 1, 1: 1, 7: 8, 8: 8, 300: 301, 767: head.Size, 768: head.Size} {
			next := from
			var failed error
			for entry, err := range store.Entries(ctx, from) {
				if failed = err; err != nil {
					break
				}
				require.Equal(t, next, entry.Seq)
				require.Equal(t, fmt.Sprintf("entry %d", next), string(entry.Bytes))
				next++
			}
			require.Equal(t, want, next, "from %d: %v", from, failed)
			if want == head.Size {
				require.NoError(t, failed)
			} else {
				requireArchived(t, failed, a)
			}
		}
	}
	check(store, head)
	head = commit(t, store, head, batchWithTiles(head, 300))
	check(store, head)
	require.Len(t, collect(t, other, 0), 300, "the other ledger is not archived")
	_, err = other.Tile(ctx, 0, 0)
	require.NoError(t, err)
	if s.reopen != nil {
		db = s.reopen(t, db)
		again, err := db.Ledger(ctx, "default")
		require.NoError(t, err)
		check(again, head)
		store = archiver(t, again)
	}

	// Commits and reads must continue while Archive runs.
	var all sync.WaitGroup
	all.Go(func() {
		for below := uint64(1024); below < 1024+4*256; below += 256 {
			for {
				err := store.Archive(ctx, storage.ArchivedRange{EndSeq: below, URL: a.URL}, nil)
				if err == nil {
					break
				}
			}
		}
	})
	all.Go(func() {
		for range 10 {
			for entry, err := range store.Entries(ctx, 768) {
				var archived *storage.ArchivedError
				if errors.As(err, &archived) {
					break
				}
				if err != nil || string(entry.Bytes) != fmt.Sprintf("entry %d", entry.Seq) {
					t.Errorf("entry %d: %q, %v", entry.Seq, entry.Bytes, err)
				}
			}
		}
	})
	for range 5 {
		head = commit(t, store, head, batchWithTiles(head, 256))
	}
	all.Wait()
	a.EndSeq = 1024 + 3*256
	_, err = store.Entry(ctx, a.EndSeq-1)
	requireArchived(t, err, a)
	entry, err := store.Entry(ctx, a.EndSeq)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("entry %d", a.EndSeq), string(entry))
}

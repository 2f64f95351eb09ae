package storagetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// The store does not hash content. These tests therefore store different bytes under one digest, to
// see which bytes it keeps.

func testDeduplication(t *testing.T, s *suite) {
	store := s.ledger(t)
	b := follow(storage.Head{}, "a", "b")
	b.Contents = []storage.Content{
		content("x", 0, "first"),
		{Digest: hash("x"), Seq: 0, Slot: 1, Bytes: []byte("second")},
		content("x", 1, "third"),
	}
	head := commit(t, store, storage.Head{}, b)
	requireContent(t, store, "x", "first")

	b = follow(head, "c")
	b.Contents = []storage.Content{content("x", 2, "fourth"), {Digest: hash("y"), Seq: 2, Slot: 1, Bytes: []byte("new")}}
	commit(t, store, head, b)
	requireContent(t, store, "x", "first")
	requireContent(t, store, "y", "new")
}

func testSlices(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	b := follow(storage.Head{}, "entry")
	b.Contents = []storage.Content{content("x", 0, "text")}
	b.Tiles = []storage.Tile{tile(0, 0, 1)}
	setting := []byte("value")
	spoil := func(slices ...[]byte) {
		for _, slice := range slices {
			clear(slice)
		}
	}
	head := storage.Head{Size: b.Head.Size, Tip: b.Head.Tip, TimeMicros: b.Head.TimeMicros, Checkpoint: []byte("checkpoint at 1")}
	require.NoError(t, store.Commit(ctx, storage.Head{}, b))
	require.NoError(t, store.SetSetting(ctx, "s", setting))
	spoil(b.Entries[0], b.Contents[0].Bytes, b.Tiles[0].Hashes, b.Head.Checkpoint, setting)

	for range 2 { // the second round reads again after the first result has been overwritten
		got, err := store.Head(ctx)
		require.NoError(t, err)
		require.Equal(t, head, got)
		entry, err := store.Entry(ctx, 0)
		require.NoError(t, err)
		require.Equal(t, "entry", string(entry))
		text, err := store.Content(ctx, hash("x"))
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		hashes, err := store.Tile(ctx, 0, 0)
		require.NoError(t, err)
		require.Equal(t, tile(0, 0, 1).Hashes, hashes)
		value, err := store.Setting(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, "value", string(value))
		spoil(got.Checkpoint, entry, text, hashes, value)
	}
}

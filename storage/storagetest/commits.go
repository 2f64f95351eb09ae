package storagetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

func testCommit(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	b := follow(storage.Head{}, "a", "", "c")
	b.Head.TimeMicros = -1
	b.Tiles = []storage.Tile{tile(0, 0, 3), tile(1, math.MaxUint64, 1)}
	b.Contents = []storage.Content{content("empty", 0, ""), content("x", 2, "text")}
	b.Claims = []storage.Claim{{KeyDigest: hash("k"), RecordDigest: hash("r"), Seq: 2}}
	commit(t, store, storage.Head{}, b)

	head, err := store.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, b.Head, head)
	for i, want := range []string{"a", "", "c"} {
		e, err := store.Entry(ctx, uint64(i))
		require.NoError(t, err)
		require.Equal(t, want, string(e))
	}
	for _, want := range b.Tiles {
		hashes, err := store.Tile(ctx, want.Level, want.Index)
		require.NoError(t, err)
		require.Equal(t, want.Hashes, hashes)
	}
	key, err := store.KeyClaim(ctx, hash("k"))
	require.NoError(t, err)
	require.Equal(t, b.Claims[0], key)
	requireContent(t, store, "x", "text")
	empty, err := store.Content(ctx, hash("empty"))
	require.NoError(t, err)
	require.Empty(t, empty)
}

// requireUntouched requires that a refused batch changed nothing: the ledger still has the given
// head and entries, and nothing from fullBatch.
func requireUntouched(t *testing.T, store storage.Store, head storage.Head, entries ...string) {
	t.Helper()
	ctx := t.Context()
	got, err := store.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, got)
	require.Equal(t, entries, collect(t, store, 0))
	_, err = store.Entry(ctx, head.Size)
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = store.Tile(ctx, 0, 0)
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = store.KeyClaim(ctx, hash("k"))
	require.ErrorIs(t, err, storage.ErrNotFound)
	requireContent(t, store, "kept", "text")
	requireReferences(t, store, "kept", 0)
	requireContent(t, store, "x", "")
	_, err = store.RedactingSeq(ctx, 0)
	require.ErrorIs(t, err, storage.ErrNotFound)
}

// fullBatch returns a batch that extends old and contains every kind of change. It redacts event 0,
// which must have the content "kept".
func fullBatch(old storage.Head, entries ...string) storage.Batch {
	b := follow(old, entries...)
	b.Tiles = []storage.Tile{tile(0, 0, 2)}
	b.Contents = []storage.Content{content("x", old.Size, "new")}
	b.Claims = []storage.Claim{{KeyDigest: hash("k"), RecordDigest: hash("r"), Seq: old.Size}}
	b.Redactions = []storage.Redaction{{Seq: 0, RedactingSeq: old.Size, Digests: []storage.Hash{hash("kept")}}}
	return b
}

func withKept(t *testing.T, store storage.Store) storage.Head {
	b := follow(storage.Head{}, "a")
	b.Contents = []storage.Content{content("kept", 0, "text")}
	return commit(t, store, storage.Head{}, b)
}

func testConflict(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	head := withKept(t, store)

	stale := fullBatch(storage.Head{}, "other")
	stale.Redactions = nil
	require.ErrorIs(t, store.Commit(ctx, storage.Head{}, stale), storage.ErrConflict)
	forked := head
	forked.Tip = hash("another history")
	require.ErrorIs(t, store.Commit(ctx, forked, fullBatch(forked, "b")), storage.ErrConflict)
	ahead := follow(head, "b").Head
	require.ErrorIs(t, store.Commit(ctx, ahead, fullBatch(ahead, "c")), storage.ErrConflict)
	requireUntouched(t, store, head, "a")

	sameTip := head
	sameTip.TimeMicros, sameTip.Checkpoint = 0, nil
	commit(t, store, sameTip, fullBatch(head, "b"))
	require.Equal(t, []string{"a", "b"}, collect(t, store, 0), "Commit compares only the size and the tip")
	requireContent(t, store, "kept", "")
}

func testInvalid(t *testing.T, s *suite) {
	store := s.ledger(t)
	head := withKept(t, store)
	for name, spoil := range map[string]func(b *storage.Batch){
		"size too large":        func(b *storage.Batch) { b.Head.Size++ },
		"size too small":        func(b *storage.Batch) { b.Head.Size-- },
		"content of the past":   func(b *storage.Batch) { b.Contents[0].Seq = head.Size - 1 },
		"content of the future": func(b *storage.Batch) { b.Contents[0].Seq = b.Head.Size },
		"key of the past":       func(b *storage.Batch) { b.Claims[0].Seq = head.Size - 1 },
		"key of the future":     func(b *storage.Batch) { b.Claims[0].Seq = b.Head.Size },
		"empty tile":            func(b *storage.Batch) { b.Tiles[0].Hashes = nil },
		"half a hash":           func(b *storage.Batch) { b.Tiles[0].Hashes = b.Tiles[0].Hashes[:40] },
		"tile too long":         func(b *storage.Batch) { b.Tiles[0] = tile(0, 0, storage.HashesPerTile+1) },
		"place used twice": func(b *storage.Batch) {
			b.Contents = append(b.Contents, content("y", b.Contents[0].Seq, "other"))
		},
		"place used twice, slots out of order": func(b *storage.Batch) {
			for i, slot := range []uint16{3, 1, 3} {
				c := content(fmt.Sprint("y", i), b.Contents[0].Seq, "other")
				c.Slot = slot
				b.Contents = append(b.Contents, c)
			}
		},
		"content out of order": func(b *storage.Batch) {
			b.Entries, b.Head.Size = append(b.Entries, []byte("c")), b.Head.Size+1
			b.Contents = []storage.Content{content("x", head.Size+1, "new"), content("y", head.Size, "other")}
		},
		"redaction by the past":   func(b *storage.Batch) { b.Redactions[0].RedactingSeq = head.Size - 1 },
		"redaction by the future": func(b *storage.Batch) { b.Redactions[0].RedactingSeq = b.Head.Size },
		"redaction of the batch":  func(b *storage.Batch) { b.Redactions[0].Seq = head.Size },
	} {
		b := fullBatch(head, "b")
		spoil(&b)
		require.Error(t, store.Commit(t.Context(), head, b), name)
		requireUntouched(t, store, head, "a")
	}
	b := fullBatch(head, "b")
	for slot := range uint16(3) {
		c := content(fmt.Sprint("y", slot), b.Contents[0].Seq, "other")
		c.Slot = 3 - slot
		b.Contents = append(b.Contents, c)
	}
	commit(t, store, head, b)
	requireContent(t, store, "y1", "other")
}

func testEmptyCommit(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	head := withKept(t, store)
	signedAgain := head
	signedAgain.Checkpoint = []byte("another signature")
	commit(t, store, head, storage.Batch{Head: signedAgain})
	got, err := store.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, signedAgain, got)
	requireContent(t, store, "kept", "text")
}

func testEntries(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	require.Empty(t, collect(t, store, 0))
	_, err := store.Entry(ctx, 0)
	require.ErrorIs(t, err, storage.ErrNotFound)

	var head storage.Head
	var all []string
	for i := range 300 { // more than 256, so that sequence numbers need a second byte
		entry := string(rune('a'+i%26)) + string(make([]byte, i))
		head = commit(t, store, head, follow(head, entry))
		all = append(all, entry)
	}
	for _, from := range []int{0, 1, 255, 256, 257, 299} {
		require.Equal(t, all[from:], collect(t, store, uint64(from)))
	}
	for _, from := range []uint64{300, 301, math.MaxUint64} {
		require.Empty(t, collect(t, store, from))
		_, err := store.Entry(ctx, from)
		require.ErrorIs(t, err, storage.ErrNotFound)
	}

	earlier := store.Entries(ctx, 298)
	commit(t, store, head, follow(head, "later"))
	for range 2 {
		var seen []uint64
		for e, err := range earlier {
			require.NoError(t, err)
			seen = append(seen, e.Seq)
		}
		require.Equal(t, []uint64{298, 299}, seen, "only entries below the head at the time of the call")
	}
	for e, err := range store.Entries(ctx, 5) {
		require.NoError(t, err)
		require.Equal(t, uint64(5), e.Seq)
		break // callers can stop the iteration early
	}
}

func testTiles(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	_, err := store.Tile(ctx, 0, 0)
	require.ErrorIs(t, err, storage.ErrNotFound)
	var head storage.Head
	for _, n := range []int{1, 2, 255, storage.HashesPerTile} {
		b := follow(head, "e")
		b.Tiles = []storage.Tile{tile(0, 0, n)}
		head = commit(t, store, head, b)
		hashes, err := store.Tile(ctx, 0, 0)
		require.NoError(t, err)
		require.Equal(t, tile(0, 0, n).Hashes, hashes)
	}
	for _, other := range []storage.Tile{{Level: 0, Index: 1}, {Level: 1, Index: 0}} {
		_, err := store.Tile(ctx, other.Level, other.Index)
		require.ErrorIs(t, err, storage.ErrNotFound)
	}
}

func testKeys(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	_, err := store.KeyClaim(ctx, hash("k"))
	require.ErrorIs(t, err, storage.ErrNotFound)
	first := storage.Claim{KeyDigest: hash("k"), RecordDigest: hash("first"), Seq: 0}
	b := follow(storage.Head{}, "a")
	b.Claims = []storage.Claim{first}
	head := commit(t, store, storage.Head{}, b)
	got, err := store.KeyClaim(ctx, hash("k"))
	require.NoError(t, err)
	require.Equal(t, first, got)

	later := storage.Claim{KeyDigest: hash("k"), RecordDigest: hash("later"), Seq: 2}
	b = follow(head, "b", "c")
	b.Claims = []storage.Claim{later}
	commit(t, store, head, b)
	got, err = store.KeyClaim(ctx, hash("k"))
	require.NoError(t, err)
	require.Equal(t, later, got)
}

// testKeysTogether looks up many idempotency keys at once: keys claimed earlier, keys claimed just
// now, unclaimed keys, and duplicates.
func testKeysTogether(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	for _, keys := range [][]storage.Hash{nil, {hash("z"), hash("y")}} {
		claims, err := store.KeyClaims(ctx, keys)
		require.NoError(t, err)
		require.Empty(t, claims)
	}
	var head storage.Head
	var keys []storage.Hash
	var want []storage.Claim
	for i := range uint64(300) {
		b := follow(head, "e")
		key := storage.Claim{KeyDigest: hash(fmt.Sprint("key ", i)), RecordDigest: hash(fmt.Sprint("record ", i)), Seq: i}
		b.Claims = []storage.Claim{key}
		head = commit(t, store, head, b)
		if i%100 != 1 {
			keys = append(keys, key.KeyDigest)
			want = append(want, key)
		}
		keys = append(keys, hash(fmt.Sprint("unclaimed ", i)))
	}
	lookedUp := slices.Clone(append(keys, keys[0], keys[1]))
	got, err := store.KeyClaims(ctx, lookedUp)
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
	require.Equal(t, append(keys, keys[0], keys[1]), lookedUp, "the caller's keys do not change")
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err = store.KeyClaims(done, keys)
	require.ErrorIs(t, err, context.Canceled)
}

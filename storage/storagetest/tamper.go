package storagetest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// Tamperer changes the stored data of one ledger, bypassing the checks of the storage contract. The
// storage's own checksums stay valid, so the layers above must detect the change.
type Tamperer interface {
	// SetEntry replaces or adds the entry at seq. It does not change the head.
	SetEntry(seq uint64, b []byte) error
	// DeleteEntry deletes the entry at seq.
	DeleteEntry(seq uint64) error
	// SetTile replaces or adds a hash tile.
	SetTile(level uint8, index uint64, hashes []byte) error
	// DeleteTile deletes a hash tile.
	DeleteTile(level uint8, index uint64) error
	// SetHead replaces the head.
	SetHead(h storage.Head) error
	// SetContent replaces the bytes stored under a digest. It returns ErrNotFound if the ledger
	// does not have the content.
	SetContent(digest storage.Hash, b []byte) error
	// DeleteContent deletes content, as if it had never been stored. It returns ErrNotFound if the
	// ledger does not have the content.
	DeleteContent(digest storage.Hash) error
	// SetRedaction marks the record at seq as redacted by the event whose seq is by, without
	// erasing any content.
	SetRedaction(seq, by uint64) error
	// DeleteRedaction deletes the redaction of the record at seq.
	DeleteRedaction(seq uint64) error
	// DeleteReference makes the ledger forget that the record at seq needs the content with the
	// given digest. It returns ErrNotFound if the ledger does not have the content.
	DeleteReference(digest storage.Hash, seq uint64) error
	// SetClaim replaces or adds the claim of an idempotency key.
	SetClaim(k storage.Claim) error
}

// TamperFunc calls change with a Tamperer for the given ledger of db. It returns the database to use
// afterwards, which is either db itself or the same database reopened.
type TamperFunc func(t *testing.T, db storage.Database, ledger string, change func(Tamperer)) storage.Database

// RunTampering checks that reads return what a Tamperer has written. It also checks that a missing
// entry below the head is reported as damage, not as ErrNotFound.
func RunTampering(t *testing.T, open func(t *testing.T) storage.Database, tampering TamperFunc) {
	t.Run("All", func(t *testing.T) { testTampering(t, open(t), tampering) })
	t.Run("RedactionBeyondHead", func(t *testing.T) { testRedactionBeyondHead(t, open(t), tampering) })
}

// testRedactionBeyondHead forges redactions that no commit can have written. Redactions must yield
// them, but a forged redaction must not withdraw content or prevent a real redaction.
func testRedactionBeyondHead(t *testing.T, db storage.Database, tampering TamperFunc) {
	w := &writer{t: t, store: create(t, db, "default")}
	w.post("x", "y")
	w.post("x")
	w.redact(map[uint64][]string{1: {"x"}})
	db = tampering(t, db, "default", func(x Tamperer) {
		require.NoError(t, x.SetRedaction(0, 900))
		require.NoError(t, x.SetRedaction(3, 1))
		require.NoError(t, x.SetRedaction(math.MaxUint64, 3))
	})
	defer func() { require.NoError(t, db.Close()) }()
	var err error
	w.store, err = db.Ledger(t.Context(), "default")
	require.NoError(t, err)
	requireRedactions(t, w.store, 0, 900, 1, 2, 3, 1, math.MaxUint64, 3)
	_, err = w.store.RedactingSeq(t.Context(), 0)
	require.ErrorIs(t, err, storage.ErrNotFound)

	b := follow(w.head, "a", "b")
	b.Redactions = []storage.Redaction{redaction(0, 4, "x", "y"), redaction(0, 3, "x")}
	w.head = commit(t, w.store, w.head, b)
	by, err := w.store.RedactingSeq(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, uint64(4), by, "the first redaction in the commit is stored")
	requireContent(t, w.store, "x", "")
	requireContent(t, w.store, "y", "")
}

func testTampering(t *testing.T, db storage.Database, tampering TamperFunc) {
	store := create(t, db, "default")
	b := follow(storage.Head{}, "a", "b", "c")
	b.Contents = []storage.Content{content("x", 0, "text"), content("y", 1, "other"), content("x", 2, "text")}
	b.Claims = []storage.Claim{{KeyDigest: hash("k"), RecordDigest: hash("r"), Seq: 0}}
	b.Tiles = []storage.Tile{tile(0, 0, 3), tile(1, 0, 1)}
	commit(t, store, storage.Head{}, b)
	head := storage.Head{Size: 4, Tip: hash("tip"), TimeMicros: 5, Checkpoint: []byte("forged")}
	key := storage.Claim{KeyDigest: hash("k"), RecordDigest: hash("another"), Seq: 2}

	b = follow(b.Head, "d")
	b.Redactions = []storage.Redaction{redaction(1, 3)}
	commit(t, store, follow(storage.Head{}, "a", "b", "c").Head, b)

	db = tampering(t, db, "default", func(x Tamperer) {
		require.NoError(t, x.SetEntry(1, []byte("B")))
		require.NoError(t, x.DeleteEntry(2))
		require.NoError(t, x.SetEntry(3, []byte("D")))
		require.NoError(t, x.SetTile(0, 0, tile(0, 0, 7).Hashes))
		require.NoError(t, x.DeleteTile(1, 0))
		require.NoError(t, x.SetHead(head))
		require.NoError(t, x.SetContent(hash("x"), []byte("forged")))
		require.NoError(t, x.DeleteContent(hash("y")))
		require.NoError(t, x.SetClaim(key))
		require.NoError(t, x.SetRedaction(2, 3))
		require.NoError(t, x.DeleteRedaction(1))
		require.NoError(t, x.DeleteReference(hash("x"), 0))
		require.ErrorIs(t, x.DeleteReference(hash("z"), 0), storage.ErrNotFound)
		require.ErrorIs(t, x.SetContent(hash("z"), nil), storage.ErrNotFound)
		require.ErrorIs(t, x.DeleteContent(hash("y")), storage.ErrNotFound)
	})
	defer func() { require.NoError(t, db.Close()) }()

	ctx := t.Context()
	store, err := db.Ledger(ctx, "default")
	require.NoError(t, err)
	got, err := store.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, got)
	requireHole(t, store)
	e, err := store.Entry(ctx, 3)
	require.NoError(t, err)
	require.Equal(t, "D", string(e))
	hashes, err := store.Tile(ctx, 0, 0)
	require.NoError(t, err)
	require.Equal(t, tile(0, 0, 7).Hashes, hashes)
	_, err = store.Tile(ctx, 1, 0)
	require.ErrorIs(t, err, storage.ErrNotFound)
	requireContent(t, store, "x", "forged")
	requireContent(t, store, "y", "")
	requireReferences(t, store, "x", 2)
	requireRedactions(t, store, 2, 3)
	by, err := store.RedactingSeq(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, uint64(3), by)
	_, err = store.RedactingSeq(ctx, 1)
	require.ErrorIs(t, err, storage.ErrNotFound)
	claim, err := store.KeyClaim(ctx, hash("k"))
	require.NoError(t, err)
	require.Equal(t, key, claim)
}

// requireHole requires that entry 2 of 4 is reported as missing.
func requireHole(t *testing.T, store storage.Store) {
	ctx := t.Context()
	_, err := store.Entry(ctx, 2)
	require.ErrorContains(t, err, "entry 2 of 4 is missing")
	require.NotErrorIs(t, err, storage.ErrNotFound)
	var seen []string
	for e, err := range store.Entries(ctx, 0) {
		if err != nil {
			require.ErrorContains(t, err, "entry 2 of 4 is missing")
			require.NotErrorIs(t, err, storage.ErrNotFound)
			break
		}
		seen = append(seen, string(e.Bytes))
	}
	require.Equal(t, []string{"a", "B"}, seen)
	for _, err := range store.Entries(ctx, 2) {
		require.ErrorContains(t, err, "entry 2 of 4 is missing")
	}
	require.Equal(t, []string{"D"}, collect(t, store, 3))
}

package storagetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

func testLedgers(t *testing.T, s *suite) {
	db := s.database(t)
	ctx := t.Context()
	all, err := db.Ledgers(ctx)
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = db.Ledger(ctx, "one")
	require.ErrorIs(t, err, storage.ErrNotFound)

	names := []string{"two", "one", "one-more", "zero"}
	for _, name := range names {
		store := create(t, db, name)
		got, err := store.Info(ctx)
		require.NoError(t, err)
		require.Equal(t, info(name), got)
		head, err := store.Head(ctx)
		require.NoError(t, err)
		require.Equal(t, storage.Head{}, head)
	}
	all, err = db.Ledgers(ctx)
	require.NoError(t, err)
	require.Equal(t, []storage.LedgerInfo{info("one"), info("one-more"), info("two"), info("zero")}, all)

	_, err = db.CreateLedger(ctx, storage.LedgerInfo{Name: "one", Origin: "another"})
	require.ErrorIs(t, err, storage.ErrConflict)
	again, err := db.Ledger(ctx, "one")
	require.NoError(t, err)
	got, err := again.Info(ctx)
	require.NoError(t, err)
	require.Equal(t, info("one"), got, "the second creation changed nothing")

	abroad := info("abroad")
	abroad.Created = abroad.Created.In(time.FixedZone("", 3600))
	store, err := db.CreateLedger(ctx, abroad)
	require.NoError(t, err)
	got, err = store.Info(ctx)
	require.NoError(t, err)
	require.Equal(t, info("abroad"), got, "the time is UTC")
}

func testCreateRace(t *testing.T, s *suite) {
	db := s.database(t)
	errs := make([]error, 8)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { _, errs[i] = db.CreateLedger(t.Context(), info("default")) })
	}
	wait.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else {
			require.ErrorIs(t, err, storage.ErrConflict)
		}
	}
	require.Equal(t, 1, made)
}

func testFreeze(t *testing.T, s *suite) {
	db := s.database(t)
	ctx := t.Context()
	store := create(t, db, "default")
	other := create(t, db, "other")
	head := commit(t, store, storage.Head{}, follow(storage.Head{}, "a"))
	require.NoError(t, store.Freeze(ctx))
	require.NoError(t, store.Freeze(ctx), "freezing twice is not an error")

	frozen := info("default")
	frozen.Frozen = true
	got, err := store.Info(ctx)
	require.NoError(t, err)
	require.Equal(t, frozen, got)
	all, err := db.Ledgers(ctx)
	require.NoError(t, err)
	require.Equal(t, []storage.LedgerInfo{frozen, info("other")}, all)

	again, err := db.Ledger(ctx, "default")
	require.NoError(t, err)
	require.ErrorIs(t, again.Commit(ctx, head, follow(head, "b")), storage.ErrFrozen)
	require.Equal(t, []string{"a"}, collect(t, store, 0))
	require.NoError(t, store.SetSetting(ctx, "public", []byte("yes")), "settings can change on a frozen ledger")
	commit(t, other, storage.Head{}, follow(storage.Head{}, "c"))
}

func testIsolation(t *testing.T, s *suite) {
	db := s.database(t)
	ctx := t.Context()
	stores := []storage.Store{create(t, db, "one"), create(t, db, "two")}
	for i, name := range []string{"one", "two"} {
		b := follow(storage.Head{}, name+" 0", name+" 1")
		b.Contents = []storage.Content{content("shared", 0, "text of "+name), content("only "+name, 1, name)}
		b.Claims = []storage.Claim{{KeyDigest: hash("shared"), RecordDigest: hash(name), Seq: uint64(i)}}
		b.Tiles = []storage.Tile{tile(0, 0, 2+i)}
		commit(t, stores[i], storage.Head{}, b)
		require.NoError(t, stores[i].SetSetting(ctx, "shared", []byte(name)))
	}
	requireContent(t, stores[0], "only two", "")
	requireContent(t, stores[1], "only one", "")

	head, err := stores[0].Head(ctx)
	require.NoError(t, err)
	b := follow(head, "one 2")
	b.Redactions = []storage.Redaction{redaction(0, head.Size, "shared", "only two")}
	commit(t, stores[0], head, b)

	requireContent(t, stores[0], "shared", "")
	requireContent(t, stores[1], "shared", "text of two")
	requireContent(t, stores[1], "only two", "two")
	require.Equal(t, []string{"one 0", "one 1", "one 2"}, collect(t, stores[0], 0))
	require.Equal(t, []string{"two 0", "two 1"}, collect(t, stores[1], 0))
	for i, name := range []string{"one", "two"} {
		key, err := stores[i].KeyClaim(ctx, hash("shared"))
		require.NoError(t, err)
		require.Equal(t, hash(name), key.RecordDigest)
		hashes, err := stores[i].Tile(ctx, 0, 0)
		require.NoError(t, err)
		require.Equal(t, tile(0, 0, 2+i).Hashes, hashes)
		setting, err := stores[i].Setting(ctx, "shared")
		require.NoError(t, err)
		require.Equal(t, name, string(setting))
	}
}

func testSettings(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	_, err := store.Setting(ctx, "public")
	require.ErrorIs(t, err, storage.ErrNotFound)
	for _, value := range []string{"yes", "", "no"} {
		require.NoError(t, store.SetSetting(ctx, "public", []byte(value)))
		got, err := store.Setting(ctx, "public")
		require.NoError(t, err)
		require.Equal(t, value, string(got))
	}
	_, err = store.Setting(ctx, "publi")
	require.ErrorIs(t, err, storage.ErrNotFound)
}

func testContext(t *testing.T, s *suite) {
	db := s.database(t)
	store := create(t, db, "default")
	b := follow(storage.Head{}, "a", "b")
	head := commit(t, store, storage.Head{}, b)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := 0
	for _, err := range store.Entries(ctx, 0) {
		steps++
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
	}
	require.Equal(t, 2, steps, "one entry, then the context's error")

	var errs []error
	add := func(err error) { errs = append(errs, err) }
	_, err := db.Ledgers(ctx)
	add(err)
	_, err = db.Ledger(ctx, "default")
	add(err)
	_, err = db.CreateLedger(ctx, info("other"))
	add(err)
	_, err = store.Head(ctx)
	add(err)
	_, err = store.Tile(ctx, 0, 0)
	add(err)
	_, err = store.Entry(ctx, 0)
	add(err)
	_, err = store.Content(ctx, hash("x"))
	add(err)
	_, err = store.KeyClaim(ctx, hash("x"))
	add(err)
	_, err = store.Setting(ctx, "x")
	add(err)
	_, err = store.RedactingSeq(ctx, 0)
	add(err)
	_, err = store.HasReference(ctx, hash("x"), 0)
	add(err)
	for _, err := range store.Redactions(ctx) {
		add(err)
	}
	for _, err := range store.References(ctx, hash("x")) {
		add(err)
	}
	_, err = store.Info(ctx)
	add(err)
	add(store.Commit(ctx, head, follow(head, "c")))
	add(store.Freeze(ctx))
	add(store.SetSetting(ctx, "x", nil))
	add(store.CheckWritable(ctx))
	require.Len(t, errs, 18)
	for _, err := range errs {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, []string{"a", "b"}, collect(t, store, 0), "nothing was written")
	_, err = db.Ledger(t.Context(), "other")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, store.CheckWritable(t.Context()))
}

func testReopen(t *testing.T, s *suite) {
	if s.reopen == nil {
		t.Skip("the test of this implementation does not use WithReopen")
	}
	db := s.open(t)
	ctx := t.Context()
	store := create(t, db, "default")
	create(t, db, "empty")
	b := follow(storage.Head{}, "a", "b")
	b.Contents = []storage.Content{content("x", 1, "text")}
	b.Claims = []storage.Claim{{KeyDigest: hash("k"), RecordDigest: hash("r"), Seq: 1}}
	b.Tiles = []storage.Tile{tile(0, 0, 2)}
	head := commit(t, store, storage.Head{}, b)
	require.NoError(t, store.SetSetting(ctx, "public", []byte("yes")))
	db = s.reopen(t, db)
	defer func() { require.NoError(t, db.Close()) }()

	store, err := db.Ledger(ctx, "default")
	require.NoError(t, err)
	got, err := store.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, got)
	require.Equal(t, []string{"a", "b"}, collect(t, store, 0))
	requireContent(t, store, "x", "text")

	b = follow(head, "c")
	b.Contents = []storage.Content{content("x", 2, "another text"), content("y", 2, "new")}
	b.Contents[1].Slot = 1
	head = commit(t, store, head, b)
	requireContent(t, store, "x", "text")
	requireContent(t, store, "y", "new")
	b = follow(head, "d")
	b.Redactions = []storage.Redaction{redaction(1, 3, "x"), redaction(2, 3, "x", "y")}
	commit(t, store, head, b)
	db = s.reopen(t, db)
	store, err = db.Ledger(ctx, "default")
	require.NoError(t, err)
	requireContent(t, store, "x", "")
	requireContent(t, store, "y", "")
	by, err := store.RedactingSeq(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, uint64(3), by)
	empty, err := db.Ledger(ctx, "empty")
	require.NoError(t, err)
	got, err = empty.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, storage.Head{}, got)
	third := create(t, db, "third")
	requireContent(t, third, "x", "")
}

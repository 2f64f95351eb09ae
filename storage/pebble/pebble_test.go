package pebble

import (
	"io/fs"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/pebbletest"
	"colophon/storage/storagetest"
)

const testDir = "database"

// openOn opens the database in testDir on the given file system.
func openOn(t *testing.T, files vfs.FS) *Database {
	db, err := Open(t.Context(), testConfig(files))
	require.NoError(t, err)
	return db
}

func testConfig(files vfs.FS) Config {
	return Config{Dir: testDir, FS: files, CacheBytes: 1 << 20, Logger: silent()}
}

func inMemory(t *testing.T) storage.Database { return openOn(t, vfs.NewMem()) }

func reopen(t *testing.T, db storage.Database) storage.Database {
	require.NoError(t, db.Close())
	return openOn(t, db.(*Database).space.FS)
}

func TestConformance(t *testing.T) {
	storagetest.Run(t, inMemory, storagetest.WithReopen(reopen))
}

func TestTamper(t *testing.T) {
	storagetest.RunTampering(t, inMemory,
		func(t *testing.T, db storage.Database, ledger string, change func(storagetest.Tamperer)) storage.Database {
			require.NoError(t, db.Close())
			files := db.(*Database).space.FS
			tamper, err := pebbletest.OpenTamperer(files, testDir, ledger)
			require.NoError(t, err)
			change(tamper)
			require.NoError(t, tamper.Close())
			return openOn(t, files)
		})
}

// newLedger creates a ledger in a new database, which is closed when the test ends.
func newLedger(t *testing.T, files vfs.FS) (*Database, *ledger) {
	db := openOn(t, files)
	t.Cleanup(func() {
		if !db.closed.Load() {
			require.NoError(t, db.Close())
		}
	})
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	return db, store.(*ledger)
}

// batch returns a batch that extends old by n entries of size bytes each. The first entry has
// content and an idempotency key. The contents depend only on old.Size, n, and size, so a test can
// rebuild the batch.
func batch(old storage.Head, n, size int) storage.Batch {
	b := storage.Batch{Head: storage.Head{Size: old.Size + uint64(n), Checkpoint: []byte("signed")}}
	for i := range n {
		entry := make([]byte, size)
		fill(entry, old.Size+uint64(i))
		b.Entries = append(b.Entries, entry)
	}
	digest := digestOf(old.Size)
	b.Contents = []storage.Content{{Digest: digest, Seq: old.Size, Bytes: b.Entries[0]}}
	b.Claims = []storage.Claim{{KeyDigest: digest, RecordDigest: digestOf(old.Size + 1), Seq: old.Size}}
	b.Tiles = []storage.Tile{{Index: old.Size, Hashes: digest[:]}}
	b.Head.Tip = digestOf(b.Head.Size)
	return b
}

func TestCloseTwiceAndUseAfterwards(t *testing.T) {
	db, l := newLedger(t, vfs.NewMem())
	ctx := t.Context()
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Close(), errClosed)
	_, err := db.Ledgers(ctx)
	require.ErrorIs(t, err, errClosed)
	_, err = l.Head(ctx)
	require.ErrorIs(t, err, errClosed)
	require.ErrorIs(t, l.Commit(ctx, storage.Head{}, batch(storage.Head{}, 1, 1)), errClosed)
	for _, err := range l.Entries(ctx, 0) {
		require.ErrorIs(t, err, errClosed)
	}
	_, err = db.Metrics()
	require.ErrorIs(t, err, errClosed)
}

func TestNumbersAreNeverReused(t *testing.T) {
	db, first := newLedger(t, vfs.NewMem())
	again := reopen(t, db).(*Database)
	store, err := again.CreateLedger(t.Context(), storage.LedgerInfo{Name: "second"})
	require.NoError(t, err)
	require.Equal(t, first.number+1, store.(*ledger).number)
	require.NoError(t, again.Close())
}

func TestMissingHeadIsDamage(t *testing.T) {
	files := vfs.NewMem()
	db, _ := newLedger(t, files)
	require.NoError(t, db.Close())
	tamper, err := pebbletest.OpenTamperer(files, testDir, "default")
	require.NoError(t, err)
	require.NoError(t, tamper.DeleteHead())
	require.NoError(t, tamper.Close())

	db = openOn(t, files)
	_, err = db.Ledger(t.Context(), "default")
	require.ErrorContains(t, err, "the ledger's head is missing")
	require.NotErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, db.Close())
}

func TestLostContentIsDamage(t *testing.T) {
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1, 10)))
	require.NoError(t, db.Close())
	tamper, err := pebbletest.OpenTamperer(files, testDir, "default")
	require.NoError(t, err)
	require.NoError(t, tamper.DeleteContentBytes(digestOf(0)))
	require.NoError(t, tamper.Close())

	db = openOn(t, files)
	store, err := db.Ledger(t.Context(), "default")
	require.NoError(t, err)
	_, err = store.Content(t.Context(), digestOf(0))
	require.ErrorContains(t, err, "the content in slot 0 of event 0 is missing")
	require.NotErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, db.Close())
}

func TestMetrics(t *testing.T) {
	db, l := newLedger(t, vfs.NewMem())
	var head storage.Head
	for range 4 {
		b := batch(head, 10, 100<<10)
		require.NoError(t, l.Commit(t.Context(), head, b))
		head = b.Head
	}
	require.NoError(t, db.engine.Flush())
	m, err := db.Metrics()
	require.NoError(t, err)
	require.Positive(t, m.DiskBytes)
	require.Positive(t, m.Flushes)
	require.GreaterOrEqual(t, m.FsyncLatency.Count, uint64(6), "format, creation, and four commits, with one sync each")
	require.NotEmpty(t, m.FsyncLatency.Buckets)
	last := Bucket{UpperBound: -1}
	for _, b := range m.FsyncLatency.Buckets {
		require.Greater(t, b.UpperBound, last.UpperBound)
		require.GreaterOrEqual(t, b.Count, last.Count)
		require.LessOrEqual(t, b.Count, m.FsyncLatency.Count)
		last = b
	}
}

// CreateLedger does not reuse a ledger's number, even if the stored number of the last ledger is
// wrong.
func TestCreateOverwritesNoLedger(t *testing.T) {
	files := vfs.NewMem()
	db, err := Open(t.Context(), Config{Dir: "db", FS: files})
	require.NoError(t, err)
	_, err = db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "first"})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	all, err := pebbletest.Dump(files, "db")
	require.NoError(t, err)
	for i := range all {
		if all[i].Key[0] == 'l' { // the number of the last ledger
			all[i].Value = []byte{0, 0, 0, 0}
		}
	}
	require.NoError(t, pebbletest.Load(files, "spoilt", all))
	db, err = Open(t.Context(), Config{Dir: "spoilt", FS: files})
	require.NoError(t, err)
	_, err = db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "second"})
	require.ErrorIs(t, err, storage.ErrDamaged)
	require.ErrorContains(t, err, "the next ledger number is 1, but that number is already in use")
	_, err = db.Ledger(t.Context(), "first")
	require.NoError(t, err)
	_, err = db.Ledgers(t.Context())
	require.ErrorIs(t, err, storage.ErrDamaged)
	require.NoError(t, db.Close())
}

// With Config.ReadOnly, Open neither creates nor changes any file.
func TestReadOnly(t *testing.T) {
	files := vfs.NewMem()
	_, err := Open(t.Context(), Config{Dir: "db", FS: files, ReadOnly: true})
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = files.Stat("db")
	require.ErrorIs(t, err, fs.ErrNotExist)
	db, err := Open(t.Context(), Config{Dir: "db", FS: files})
	require.NoError(t, err)
	_, err = db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "first"})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	before, err := files.List("db")
	require.NoError(t, err)

	db, err = Open(t.Context(), Config{Dir: "db", FS: files, ReadOnly: true})
	require.NoError(t, err)
	store, err := db.Ledger(t.Context(), "first")
	require.NoError(t, err)
	require.Error(t, store.SetSetting(t.Context(), "log", []byte("public")))
	require.NoError(t, db.Close())
	after, err := files.List("db")
	require.NoError(t, err)
	require.ElementsMatch(t, before, after)
}

package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/postgres/commitrows"
	"colophon/storage/postgres/postgrestest"
	"colophon/storage/storagetest"
)

func TestMain(m *testing.M) {
	// Check only a few random histories, because each takes thousands of statements.
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	os.Exit(postgrestest.Main(m))
}

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

// openAt opens the database at the given URL, and closes it at the end of the test unless the test
// has closed it. Its commits of several events use COPY.
func openAt(t *testing.T, url string) *Database {
	t.Helper()
	db, err := Open(t.Context(), Config{URL: url, Logger: silent(), copyMinEvents: 2})
	require.NoError(t, err)
	t.Cleanup(func() {
		if !db.closed.Load() {
			require.NoError(t, db.Close())
		}
	})
	return db
}

// emptyURL returns a URL that selects a new, empty schema of the shared server.
func emptyURL(t *testing.T) string {
	server := postgrestest.SharedServer(t)
	return server.URL("search_path", server.CreateSchema(t))
}

// openEmpty opens a database in a new, empty schema. The caller must close it.
func openEmpty(t *testing.T) storage.Database {
	db, err := Open(t.Context(), Config{URL: emptyURL(t), Logger: silent()})
	require.NoError(t, err)
	return db
}

func (d *Database) url() string { return d.reads.Config().ConnString() }

func reopen(t *testing.T, db storage.Database) storage.Database {
	require.NoError(t, db.Close())
	again, err := Open(t.Context(), Config{URL: db.(*Database).url(), Logger: silent()})
	require.NoError(t, err)
	return again
}

func TestConformance(t *testing.T) {
	storagetest.Run(t, openEmpty, storagetest.WithReopen(reopen))
}

// openCopying opens a database whose commits all use COPY, except those that cannot.
func openCopying(t *testing.T, url string) storage.Database {
	db, err := Open(t.Context(), Config{URL: url, Logger: silent(), copyMinEvents: 1})
	require.NoError(t, err)
	return db
}

func openEmptyCopying(t *testing.T) storage.Database { return openCopying(t, emptyURL(t)) }

func reopenCopying(t *testing.T, db storage.Database) storage.Database {
	require.NoError(t, db.Close())
	return openCopying(t, db.(*Database).url())
}

func TestCopyConformance(t *testing.T) {
	storagetest.Run(t, openEmptyCopying, storagetest.WithReopen(reopenCopying))
}

func TestTamper(t *testing.T) {
	for _, with := range []struct {
		open   func(*testing.T) storage.Database
		reopen func(*testing.T, storage.Database) storage.Database
	}{{openEmpty, reopen}, {openEmptyCopying, reopenCopying}} {
		storagetest.RunTampering(t, with.open,
			func(t *testing.T, db storage.Database, ledger string, change func(storagetest.Tamperer)) storage.Database {
				store, err := db.Ledger(t.Context(), ledger)
				require.NoError(t, err)
				change(&tamperer{t: t, conn: connect(t, db.(*Database).url()), ledger: store.(*ledgerHandle).number})
				return with.reopen(t, db) // reopen, because a database that is open for writing does not read its head again
			})
	}
}

// If the server refuses COPY, large commits of all ledgers use INSERT.
func TestCopyRefused(t *testing.T) {
	server := postgrestest.SharedServer(t)
	schema := server.CreateSchema(t)
	admin := connect(t, server.URL("search_path", schema))
	exec := func(statement string) {
		t.Helper()
		_, err := admin.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	exec(`CREATE ROLE restricted; GRANT ALL ON SCHEMA ` + schema + ` TO restricted`)
	db := openCopying(t, server.URL("search_path", schema, "role", "restricted"))
	var stores [4]storage.Store
	for i := range stores {
		store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: fmt.Sprint("ledger-", i)})
		require.NoError(t, err)
		stores[i] = store
	}
	exec(`ALTER TABLE colophon_entries ENABLE ROW LEVEL SECURITY; ALTER TABLE colophon_entries FORCE ROW LEVEL SECURITY;
		CREATE POLICY everything ON colophon_entries USING (true)`)
	var head storage.Head
	for range 20 {
		db.(*Database).copyRefused.Store(false)
		next := batch(head, 3)
		var commits sync.WaitGroup
		for _, store := range stores { // several ledgers meet the refusal at the same time
			commits.Go(func() { assert.NoError(t, store.Commit(t.Context(), head, next)) })
		}
		commits.Wait()
		head = next.Head
	}
	for _, store := range stores {
		requireLog(t, store, head)
	}
	require.True(t, db.(*Database).copyRefused.Load())
	require.NoError(t, db.Close())
	exec(`DROP OWNED BY restricted; DROP ROLE restricted`)
}

// ledgerHandle is an alias for use where a parameter named ledger shadows the type.
type ledgerHandle = ledger

// connect opens a connection, and closes it at the end of the test.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// digestOf returns a digest derived from n.
func digestOf(n uint64) storage.Hash { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, n)) }

// batch returns a batch that extends old by n entries, each of which contains its own seq. The
// first entry has content and an idempotency key. All entries share another piece of content.
func batch(old storage.Head, n int) storage.Batch {
	b := storage.Batch{Head: storage.Head{Size: old.Size + uint64(n), Tip: digestOf(old.Size + uint64(n)), Checkpoint: []byte("signed")}}
	for i := range uint64(n) {
		seq := old.Size + i
		b.Entries = append(b.Entries, binary.BigEndian.AppendUint64(nil, seq))
		if i == 0 {
			b.Contents = append(b.Contents, storage.Content{Digest: digestOf(seq), Seq: seq, Bytes: b.Entries[0]})
		}
		b.Contents = append(b.Contents, storage.Content{Digest: digestOf(1 << 60), Seq: seq, Slot: 1, Bytes: []byte("prompt")})
	}
	b.Claims = []storage.Claim{{KeyDigest: digestOf(old.Size), RecordDigest: digestOf(1), Seq: old.Size}}
	hashes := min(b.Head.Size, storage.HashesPerTile)
	b.Tiles = []storage.Tile{{Hashes: make([]byte, hashes*storage.HashSize)}}
	return b
}

// requireLog requires that a ledger has the given head and exactly the entries, references, and tile
// that the batches up to this head contain.
func requireLog(t *testing.T, store storage.Store, head storage.Head) {
	t.Helper()
	stored, err := store.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, head.Size, stored.Size)
	require.Equal(t, head.Tip, stored.Tip)
	var next uint64
	for e, err := range store.Entries(t.Context(), 0) {
		require.NoError(t, err)
		require.Equal(t, binary.BigEndian.AppendUint64(nil, next), e.Bytes)
		next++
	}
	require.Equal(t, head.Size, next)
	var needed uint64
	for seq, err := range store.References(t.Context(), digestOf(1<<60)) {
		require.NoError(t, err)
		require.Equal(t, needed, seq)
		needed++
	}
	require.Equal(t, head.Size, needed)
	hashes, err := store.Tile(t.Context(), 0, 0)
	require.NoError(t, err)
	require.Len(t, hashes, int(min(head.Size, storage.HashesPerTile))*storage.HashSize)
}

// Opening a ledger takes it over: processes that opened it earlier can no longer write to it.
func TestLaterOpeningTakesOver(t *testing.T) {
	url := emptyURL(t)
	ctx := t.Context()
	first := openAt(t, url)
	creator, err := first.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := batch(storage.Head{}, 2)
	require.NoError(t, creator.Commit(ctx, storage.Head{}, b))
	head := b.Head

	open := func() storage.Store {
		store, err := openAt(t, url).Ledger(ctx, "default")
		require.NoError(t, err)
		return store
	}
	writes := []func(storage.Store) error{
		func(s storage.Store) error { return s.Commit(ctx, head, batch(head, 1)) },
		func(s storage.Store) error { return s.SetSetting(ctx, "log", []byte("public")) },
		func(s storage.Store) error { return s.Freeze(ctx) },
	}
	earlier := []storage.Store{creator, open(), open()}
	later := open()
	for i, write := range writes {
		for range 2 {
			err := write(earlier[i])
			require.ErrorIs(t, err, storage.ErrConflict)
			require.ErrorContains(t, err, "another process has taken over the ledger")
		}
	}
	requireLog(t, later, head)
	_, err = later.Setting(ctx, "log")
	require.ErrorIs(t, err, storage.ErrNotFound)
	info, err := later.Info(ctx)
	require.NoError(t, err)
	require.False(t, info.Frozen)
	b = batch(head, 1)
	require.NoError(t, later.Commit(ctx, head, b))
	entry, err := creator.Entry(ctx, head.Size)
	require.NoError(t, err, "reads continue")
	require.Equal(t, b.Entries[0], entry)
	known, err := creator.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, known, "a later process may have written what a standby does not have")

	again, err := first.Ledger(ctx, "default")
	require.NoError(t, err)
	next := batch(b.Head, 1)
	require.NoError(t, again.Commit(ctx, b.Head, next), "opened again")
	require.ErrorIs(t, later.Commit(ctx, next.Head, batch(next.Head, 1)), storage.ErrConflict)
	requireLog(t, again, next.Head)
}

// With Config.ReadOnly, Open does not take over a ledger or create anything.
func TestReadOnly(t *testing.T) {
	url := emptyURL(t)
	ctx := t.Context()
	_, err := Open(ctx, Config{URL: url, ReadOnly: true})
	require.ErrorIs(t, err, storage.ErrNotFound)
	db := openAt(t, url)
	store, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := batch(storage.Head{}, 1)
	require.NoError(t, store.Commit(ctx, storage.Head{}, b))

	reader, err := Open(ctx, Config{URL: url, ReadOnly: true})
	require.NoError(t, err)
	read, err := reader.Ledger(ctx, "default")
	require.NoError(t, err)
	requireLog(t, read, b.Head)
	require.ErrorIs(t, read.Commit(ctx, b.Head, batch(b.Head, 1)), errReadOnly)
	require.ErrorIs(t, read.SetSetting(ctx, "log", nil), errReadOnly)
	require.ErrorIs(t, read.Freeze(ctx), errReadOnly)
	require.ErrorIs(t, read.CheckWritable(ctx), errReadOnly)
	_, err = reader.CreateLedger(ctx, storage.LedgerInfo{Name: "other"})
	require.ErrorIs(t, err, errReadOnly)
	require.NoError(t, store.Commit(ctx, b.Head, batch(b.Head, 1)))
	require.NoError(t, reader.Close())
	require.ErrorIs(t, reader.Close(), errClosed)
	_, err = read.Head(ctx)
	require.ErrorIs(t, err, errClosed)
}

// Several processes can open an empty database at the same time.
func TestConcurrentOpenings(t *testing.T) {
	url := emptyURL(t)
	errs := make([]error, 6)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			db, err := Open(t.Context(), Config{URL: url, Logger: silent()})
			if err == nil {
				err = db.Close()
			}
			errs[i] = err
		})
	}
	wait.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// If several processes create ledgers at the same time, with the same name or different names, each
// name is created once and no number is used twice.
func TestConcurrentCreations(t *testing.T) {
	url := emptyURL(t)
	var made, refused int
	var mu sync.Mutex
	var wait sync.WaitGroup
	names := []string{"one", "two"}
	for range 4 {
		db := openAt(t, url)
		wait.Go(func() {
			for _, name := range names {
				_, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: name})
				mu.Lock()
				if err == nil {
					made++
				} else if errorIs(err, storage.ErrConflict) {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	require.Equal(t, []int{2, 6}, []int{made, refused})
	all, err := openAt(t, url).descriptions(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, int64(3), all[0].number+all[1].number)
}

func TestMissingHeadIsDamage(t *testing.T) {
	url := emptyURL(t)
	db := openAt(t, url)
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	_, err = connect(t, url).Exec(t.Context(), `DELETE FROM colophon_heads`)
	require.NoError(t, err)
	_, err = store.Entry(t.Context(), 0)
	require.ErrorIs(t, err, storage.ErrDamaged)
	require.ErrorIs(t, store.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)), storage.ErrDamaged)
	_, err = openAt(t, url).Ledger(t.Context(), "default")
	require.ErrorIs(t, err, storage.ErrDamaged)
	require.ErrorContains(t, err, `the head of ledger "default" is missing`)
	_, err = db.Ledgers(t.Context())
	require.ErrorIs(t, err, storage.ErrDamaged)
}

// PostgreSQL may keep a plan that it made while a table was empty. The plan of a prepared statement
// uses the index even then, so the statement stays fast when the table grows.
func TestPlansUseIndexes(t *testing.T) {
	db := openAt(t, emptyURL(t))
	for name, pool := range map[string]*pgxpool.Pool{"reads": db.reads, "writes": db.writes} {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `PREPARE lookup (bigint, bytea[]) AS `+selectClaims+` AND c.key = ANY ($2::bytea[])`)
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), `EXPLAIN EXECUTE lookup (1, ARRAY['a', 'b']::bytea[])`)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Contains(t, strings.Join(plan, "\n"), "Index Cond: ((key = ANY ($2)) AND (ledger = ", name)
		require.NoError(t, conn.Conn().Close(t.Context()))
		conn.Release()
	}
}

// A commit whose rows do not fit in two statements is still one transaction, with INSERT and with COPY.
func TestLargeCommit(t *testing.T) {
	const statementRows, statementBytes = 4096, 4 << 20 // as in package commitrows
	for _, copyMinEvents := range []int{commitrows.CopyMinEvents, math.MaxInt} {
		db, err := Open(t.Context(), Config{URL: emptyURL(t), Logger: silent(), copyMinEvents: copyMinEvents})
		require.NoError(t, err)
		store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
		require.NoError(t, err)
		b := batch(storage.Head{}, 2*statementRows+1)
		large := make([]byte, statementBytes/2+1)
		for i := range 4 {
			b.Contents = append(b.Contents, storage.Content{Digest: digestOf(1<<61 + uint64(i)), Seq: b.Head.Size - 1, Slot: uint16(2 + i), Bytes: large})
		}
		require.NoError(t, store.Commit(t.Context(), storage.Head{}, b))
		requireLog(t, store, b.Head)
		for i := range 4 {
			bytes, err := store.Content(t.Context(), digestOf(1<<61+uint64(i)))
			require.NoError(t, err)
			require.Len(t, bytes, len(large))
		}
		require.NoError(t, db.Close())
	}
}

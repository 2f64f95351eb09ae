package postgres

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/postgres/postgrestest"
)

// faults determines how a proxy handles each COMMIT.
type faults struct {
	mu   sync.Mutex
	next []postgrestest.Fault // faults for the next COMMITs; later COMMITs get FaultNone
}

func (f *faults) take() postgrestest.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.next) == 0 {
		return postgrestest.FaultNone
	}
	fault := f.next[0]
	f.next = f.next[1:]
	return fault
}

func (f *faults) set(next ...postgrestest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

// proxied creates a ledger through a proxy and returns it as store. f controls the faults of the
// proxy. direct reads the same ledger without the proxy.
func proxied(t *testing.T) (f *faults, proxy *postgrestest.Proxy, store storage.Store, direct storage.Store) {
	f = new(faults)
	server := postgrestest.SharedServer(t)
	proxy = postgrestest.NewProxy(t, server, f.take)
	schema := server.CreateSchema(t)
	db := openAt(t, proxy.URL("search_path", schema))
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	reader, err := Open(t.Context(), Config{URL: server.URL("search_path", schema), ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	direct, err = reader.Ledger(t.Context(), "default")
	require.NoError(t, err)
	return f, proxy, store, direct
}

// If the connection is cut before, during, or after a COMMIT, each batch is still committed exactly
// once, even if the connection is cut again at the COMMIT that raises the epoch.
func TestCutDuringCommit(t *testing.T) {
	const (
		before = postgrestest.FaultBeforeCommit
		during = postgrestest.FaultDuringCommit
		after  = postgrestest.FaultAfterCommit
		none   = postgrestest.FaultNone
	)
	f, _, store, direct := proxied(t)
	var head storage.Head
	try := func(next ...postgrestest.Fault) {
		t.Helper()
		b := batch(head, 3)
		f.set(next...)
		require.NoError(t, store.Commit(t.Context(), head, b), "%v", next)
		if len(next) == 1 {
			require.Empty(t, f.next, "the proxy must recognise COMMIT")
		}
		head = b.Head
		requireLog(t, direct, head)
	}
	for _, first := range []postgrestest.Fault{none, before, during, after} {
		try(first)
		for _, second := range []postgrestest.Fault{before, during, after} {
			try(first, second)
			try(first, second, second, none, first)
		}
	}
	f.set(after)
	require.NoError(t, store.SetSetting(t.Context(), "log", []byte("public")))
	f.set(before, after)
	require.NoError(t, store.Freeze(t.Context()))
	info, err := store.Info(t.Context())
	require.NoError(t, err)
	require.True(t, info.Frozen)
	require.ErrorIs(t, store.Commit(t.Context(), head, batch(head, 1)), storage.ErrFrozen)
}

// If the response to the creation of a ledger is lost, the ledger is still created exactly once.
func TestCutDuringCreation(t *testing.T) {
	f, proxy, _, _ := proxied(t)
	db := openAt(t, proxy.URL("search_path", postgrestest.SharedServer(t).CreateSchema(t)))
	for name, fault := range map[string]postgrestest.Fault{
		"before": postgrestest.FaultBeforeCommit, "during": postgrestest.FaultDuringCommit, "after": postgrestest.FaultAfterCommit,
	} {
		f.set(fault)
		store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: name})
		require.NoError(t, err)
		require.NoError(t, store.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)))
		_, err = db.CreateLedger(t.Context(), storage.LedgerInfo{Name: name})
		require.ErrorIs(t, err, storage.ErrConflict)
	}
}

// If a COMMIT reaches the server late, after the client has lost its connection, the commit is not
// made twice. The first transaction still locks the head row, so raising the epoch waits for it.
func TestLateCommit(t *testing.T) {
	f, proxy, store, direct := proxied(t)
	b := batch(storage.Head{}, 3)
	f.set(postgrestest.FaultHoldCommit)
	committed := make(chan error, 1)
	go func() { committed <- store.Commit(context.Background(), storage.Head{}, b) }()
	l := store.(*ledger)
	waits := connect(t, postgrestest.SharedServer(t).URL())
	require.Eventually(t, func() bool {
		var n int
		err := waits.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE colophon_heads SET epoch%'`).Scan(&n)
		return err == nil && n > 0
	}, time.Minute, time.Millisecond, "raising the epoch must wait")
	require.Empty(t, committed)
	proxy.ReleaseCommit()
	require.NoError(t, <-committed)
	requireLog(t, direct, b.Head)
	require.Equal(t, int64(2), l.epoch)
}

// If a COMMIT is lost and the server does not notice that the client has disappeared, the
// transaction locks the head row until endSilentSessions ends it. The commit then succeeds.
func TestTransactionWithoutClient(t *testing.T) {
	f, proxy, _, _ := proxied(t)
	db, err := Open(t.Context(), Config{URL: proxy.URL("search_path", postgrestest.SharedServer(t).CreateSchema(t)), Logger: silent(), WriteTimeout: 8 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := batch(storage.Head{}, 3)
	f.set(postgrestest.FaultDropCommit)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, b))
	next := batch(b.Head, 1)
	require.NoError(t, store.Commit(t.Context(), b.Head, next))
	requireLog(t, store, next.Head)
	// This COMMIT is not in the same message as the statements before it, so the server's time limit for
	// idle transactions applies.
	f.set(postgrestest.FaultDropCommit)
	require.NoError(t, store.SetSetting(t.Context(), "log", []byte("public")))
}

// If the server is killed, no acknowledged commit is lost, and no commit is made twice.
func TestKilledServer(t *testing.T) {
	server := postgrestest.Start(t)
	db := openAt(t, server.URL())
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	var acknowledged atomic.Uint64
	var stop atomic.Bool
	written := make(chan error, 1)
	go func() {
		var head storage.Head
		for !stop.Load() {
			b := batch(head, 1+int(head.Size%5))
			if err := store.Commit(context.Background(), head, b); err != nil {
				written <- err
				return
			}
			head = b.Head
			acknowledged.Store(head.Size)
		}
		written <- nil
	}()
	kills := 4
	if testing.Short() {
		kills = 1
	}
	for range kills {
		until := acknowledged.Load() + 1 + rand.Uint64N(200)
		require.Eventually(t, func() bool { return acknowledged.Load() >= until || len(written) > 0 }, time.Minute, time.Millisecond)
		require.Empty(t, written)
		before := acknowledged.Load()
		require.NoError(t, server.Kill())
		require.NoError(t, server.Start())
		reader, err := Open(t.Context(), Config{URL: server.URL(), ReadOnly: true})
		require.NoError(t, err)
		read, err := reader.Ledger(t.Context(), "default")
		require.NoError(t, err)
		head, err := read.Head(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, head.Size, before)
		require.NoError(t, reader.Close())
	}
	stop.Store(true)
	require.NoError(t, <-written)
	requireLog(t, store, storage.Head{Size: acknowledged.Load(), Tip: digestOf(acknowledged.Load())})
}

// If a writer is suspended in the middle of a COPY, it keeps the head row locked. Its session is ended when
// another process takes over the ledger.
func TestSuspendedCopy(t *testing.T) {
	server := postgrestest.SharedServer(t)
	url := server.URL("search_path", server.CreateSchema(t))
	db := openAt(t, url)
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := batch(storage.Head{}, 2)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, b))

	suspended := connect(t, url)
	_, err = suspended.Exec(t.Context(), `BEGIN; UPDATE colophon_heads SET size = 100`)
	require.NoError(t, err)
	data, writer := io.Pipe()
	defer writer.Close()
	copied := make(chan error, 1)
	go func() {
		_, err := suspended.PgConn().CopyFrom(context.Background(), data, `COPY colophon_claims FROM STDIN (FORMAT binary)`)
		copied <- err
	}()
	again, err := Open(t.Context(), Config{URL: url, Logger: silent(), WriteTimeout: 4 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	store, err = again.Ledger(t.Context(), "default")
	require.NoError(t, err)
	require.ErrorContains(t, <-copied, "terminating connection")
	requireLog(t, store, b.Head)
}

// If the server does not respond within Config.WriteTimeout, the outcome is unknown, and nothing is
// written until the ledger is opened again.
func TestServerThatDoesNotComeBack(t *testing.T) {
	server := postgrestest.Start(t)
	db, err := Open(t.Context(), Config{URL: server.URL(), Logger: silent(), WriteTimeout: 300 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := batch(storage.Head{}, 2)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, b))
	server.Stop()
	next := batch(b.Head, 1)
	for range 2 {
		err = store.Commit(t.Context(), b.Head, next)
		require.ErrorContains(t, err, "the outcome of a write is unknown")
		require.False(t, sentinel(err))
	}
	require.NoError(t, server.Start())
	err = store.Commit(t.Context(), b.Head, next)
	require.ErrorContains(t, err, "the ledger must be reopened")
	store, err = db.Ledger(t.Context(), "default")
	require.NoError(t, err)
	requireLog(t, store, b.Head)
	db.patience = time.Minute
	require.NoError(t, store.Commit(t.Context(), b.Head, next))
	requireLog(t, store, next.Head)
}

// requireAbsentStandby configures the server so that commits wait for a standby that does not exist. It
// returns a connection whose own commits do not wait, and a function that runs statements on it.
func requireAbsentStandby(t *testing.T, server *postgrestest.Server) (admin *pgx.Conn, exec func(statement string, arguments ...any)) {
	t.Helper()
	admin = connect(t, server.URL())
	exec = func(statement string, arguments ...any) {
		t.Helper()
		_, err := admin.Exec(t.Context(), statement, arguments...)
		require.NoError(t, err)
	}
	exec(`SET synchronous_commit = local`)
	exec(`ALTER SYSTEM SET synchronous_standby_names = 'absent'`)
	exec(`SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool { // the server needs a moment to reload its configuration
		conn, err := pgx.Connect(t.Context(), server.URL())
		require.NoError(t, err)
		defer conn.Close(t.Context())
		limited, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err = conn.Exec(limited, `SELECT pg_logical_emit_message(true, 'test', '')`)
		return errors.Is(err, context.DeadlineExceeded)
	}, time.Minute, time.Millisecond)
	return admin, exec
}

// PostgreSQL answers COMMIT with a warning if the wait for a standby is cancelled. Commit does not
// treat this as an acknowledgement: it returns only once a later transaction has been acknowledged
// without a warning.
func TestWarningIsNoAcknowledgement(t *testing.T) {
	server := postgrestest.Start(t)
	db := openAt(t, server.URL())
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	admin, exec := requireAbsentStandby(t, server)

	b := batch(storage.Head{}, 2)
	committed := make(chan error, 1)
	go func() { committed <- store.Commit(context.Background(), storage.Head{}, b) }()
	// waiting ignores other statements, which also wait for the standby.
	waiting := func(except time.Time) (pid int, since time.Time) {
		t.Helper()
		require.Eventually(t, func() bool {
			err := admin.QueryRow(t.Context(), `SELECT pid, xact_start FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'commit' AND xact_start > $1`, except).Scan(&pid, &since)
			return err == nil
		}, time.Minute, time.Millisecond)
		return pid, since
	}
	pid, since := waiting(time.Time{})
	exec(`SELECT pg_cancel_backend($1)`, pid)
	waiting(since) // raising the epoch now waits for the standby, too
	require.Empty(t, committed)
	exec(`ALTER SYSTEM RESET synchronous_standby_names`)
	exec(`SELECT pg_reload_conf()`)
	require.NoError(t, <-committed)
	require.Equal(t, int64(2), store.(*ledger).epoch)
	requireLog(t, store, b.Head)
}

// If the wait for the standby is cancelled, a commit can be visible before it is on the standby.
// Another server does not show such a commit until it is durable.
func TestHeadThatIsNotDurable(t *testing.T) {
	server := postgrestest.Start(t)
	a, b := member(t, server.URL(), "a"), member(t, server.URL(), "b")
	store, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	reader := storeOf(t, b, "default")
	first := batch(storage.Head{}, 2)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, first))
	requireLog(t, reader, first.Head)
	admin, exec := requireAbsentStandby(t, server)
	second := batch(first.Head, 2)
	committed := make(chan error, 1)
	go func() { committed <- store.Commit(context.Background(), first.Head, second) }()
	require.Eventually(t, func() bool {
		var cancelled int
		err := admin.QueryRow(t.Context(), `SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'commit'`).Scan(&cancelled)
		return err == nil && cancelled > 0
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		var size int64
		err := admin.QueryRow(t.Context(), `SELECT size FROM colophon_heads`).Scan(&size)
		return err == nil && size == 4
	}, time.Minute, time.Millisecond, "it is visible")
	limited, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = reader.Head(limited)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	walked := 0
	for _, err := range reader.Entries(t.Context(), 0) {
		require.NoError(t, err)
		walked++
	}
	require.Equal(t, 2, walked)
	require.Empty(t, committed)
	exec(`ALTER SYSTEM RESET synchronous_standby_names`)
	exec(`SELECT pg_reload_conf()`)
	require.NoError(t, <-committed)
	requireLog(t, reader, second.Head)
}

// If the primary is suspended, its connections stay open but receive no answers. After a standby
// has been promoted and renewals fail, Leases.CloseStaleConnections closes these connections, and every
// operation continues on the new primary.
func TestStoppedPrimary(t *testing.T) {
	primary := postgrestest.Start(t)
	standby := postgrestest.StartStandby(t, primary)
	db := member(t, primary.URLWithFallback(standby), "a")
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := batch(storage.Head{}, 2)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, b))
	follower := connect(t, standby.URL())
	require.Eventually(t, func() bool {
		var size int
		return follower.QueryRow(t.Context(), `SELECT size FROM colophon_heads`).Scan(&size) == nil && size == 2
	}, time.Minute, 10*time.Millisecond)

	t.Cleanup(func() { require.NoError(t, primary.KillAll()) })
	require.NoError(t, primary.Pause())
	next := batch(b.Head, 1)
	committed, read := make(chan error, 1), make(chan error, 1)
	go func() { committed <- store.Commit(context.Background(), b.Head, next) }()
	go func() {
		_, err := db.Ledgers(context.Background())
		read <- err
	}()
	require.NoError(t, standby.Promote())
	for range 2 {
		began := time.Now()
		limited, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := db.Leases().Renew(limited)
		cancel()
		require.Error(t, err)
		db.Leases().CloseStaleConnections(began, err)
	}
	require.NoError(t, <-read)
	require.NoError(t, <-committed)
	requireLog(t, store, next.Head)
	require.NoError(t, db.Leases().Renew(t.Context()))
}

// A database whose settings could lose commits cannot be opened. If the server is restarted with such
// settings, an open database refuses to write.
func TestSettingsThatLoseCommits(t *testing.T) {
	server := postgrestest.Start(t)
	ctx := t.Context()
	refused := func(name, value string) {
		t.Helper()
		_, err := Open(ctx, Config{URL: server.URL(), Logger: silent()})
		var setting *ServerSettingError
		require.ErrorAs(t, err, &setting)
		require.Equal(t, name, setting.Name)
		require.ErrorAs(t, probe(t, server.URL()), &setting)
		require.ErrorContains(t, err, "the database server's setting "+name+" is "+value+": ")
	}
	db := openAt(t, server.URL())
	store, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	admin := connect(t, server.URL())
	_, err = admin.Exec(ctx, `ALTER ROLE colophon SET synchronous_commit = off`)
	require.NoError(t, err)
	refused("synchronous_commit", "off")

	// Without standbys, a connection with "local" commits as with "on". With standbys, "local" would not wait for them.
	_, err = admin.Exec(ctx, `ALTER ROLE colophon SET synchronous_commit = local`)
	require.NoError(t, err)
	var value string
	require.NoError(t, openAt(t, server.URL()).writes.QueryRow(ctx, `SHOW synchronous_commit`).Scan(&value))
	require.Equal(t, "on", value)
	require.NoError(t, server.Execute(`ALTER SYSTEM SET synchronous_standby_names = 'other'`, `SELECT pg_reload_conf()`))
	require.Eventually(t, func() bool {
		var names string
		require.NoError(t, admin.QueryRow(ctx, `SHOW synchronous_standby_names`).Scan(&names))
		return names == "other"
	}, time.Minute, 10*time.Millisecond)
	refused("synchronous_commit", "local")
	require.NoError(t, server.Execute(`ALTER SYSTEM RESET synchronous_standby_names`, `SELECT pg_reload_conf()`))
	_, err = admin.Exec(ctx, `ALTER ROLE colophon RESET synchronous_commit`)
	require.NoError(t, err)
	openAt(t, server.URL())

	for _, name := range []string{"fsync", "full_page_writes"} {
		server.Stop()
		require.NoError(t, server.Configure(name+" = off"))
		require.NoError(t, server.Start())
		refused(name, "off")
		var setting *ServerSettingError
		_, err := db.Ledger(ctx, "default") // reopen the ledger, because the outcome of an earlier write can be unknown
		if err == nil {
			err = store.Commit(ctx, storage.Head{}, batch(storage.Head{}, 1))
		}
		require.ErrorAs(t, err, &setting)
		server.Stop()
		require.NoError(t, server.Configure(name+" = on"))
		require.NoError(t, server.Start())
	}
	store, err = db.Ledger(ctx, "default")
	require.NoError(t, err)
	require.NoError(t, store.Commit(ctx, storage.Head{}, batch(storage.Head{}, 1)))
}

// If synchronous_commit is changed in the server's configuration, open connections keep their
// setting.
func TestSynchronousCommitIsKept(t *testing.T) {
	server := postgrestest.Start(t)
	db := openAt(t, server.URL())
	admin := connect(t, server.URL())
	for _, statement := range []string{`ALTER SYSTEM SET synchronous_commit = off`, `SELECT pg_reload_conf()`} {
		_, err := admin.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	shown := func(row interface{ Scan(...any) error }) (value string) {
		require.NoError(t, row.Scan(&value))
		return value
	}
	require.Eventually(t, func() bool {
		return shown(admin.QueryRow(t.Context(), `SHOW synchronous_commit`)) == "off"
	}, time.Minute, time.Millisecond)
	for range 3 { // the connection applies the changed configuration between statements
		require.Equal(t, "on", shown(db.writes.QueryRow(t.Context(), `SHOW synchronous_commit`)))
	}
}

// A read is retried if its connection is cut.
func TestReadAfterCut(t *testing.T) {
	_, proxy, store, _ := proxied(t)
	b := batch(storage.Head{}, 3)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, b))
	for range 3 {
		requireLog(t, store, b.Head)
		proxy.CloseConnections()
	}
	next := batch(b.Head, 3)
	require.NoError(t, store.Commit(t.Context(), b.Head, next))
	requireLog(t, store, next.Head)
}

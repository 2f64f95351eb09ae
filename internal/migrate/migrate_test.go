package migrate

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
	"colophon/ledger/record/seqs"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/memory"
	"colophon/storage/postgres"
)

// A move in either direction preserves everything that a store returns. Afterwards, a server
// replays the same receipts for the same idempotency keys.
func TestMoveBothWays(t *testing.T) {
	l, url := everyKind(t), emptyURL(t)
	record := `{"run_id":"ipc","payload":{"q":"Who?","seed":7},"system_prompt":"Be brief.","output":"Ana  Varga.","model":"m1","temperature":0.5,"max_tokens":9}`
	replayed := func(data, store string) string {
		at, stop := serve(t, data, store)
		defer stop()
		status, answer := ledgertest.Send(t, "POST", at+"/ipc-records", record, "application/json")
		require.Equal(t, http.StatusOK, status, answer)
		return answer
	}
	database := openFolder(t, datadir.DatabaseFolder(l.DataDir))
	before := read(t, database)
	require.NoError(t, database.Close())
	require.Len(t, before, 2)
	require.NotEmpty(t, before[ledger.DefaultName].Redactions)
	require.True(t, before["old"].Info.Frozen)
	receipt := replayed(l.DataDir, "")

	c, said := console()
	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url}), said)
	moved := openPostgres(t, url)
	require.Equal(t, before, read(t, moved))
	requireClean(t, moved)
	require.NoError(t, moved.Close())
	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url}), "again")
	require.Contains(t, said.String(), "nothing to do")
	require.Equal(t, receipt, replayed(l.DataDir, url))

	// After the ledgers have been moved back, a server no longer starts on the database.
	require.NoError(t, os.RemoveAll(datadir.MovedDatabaseFolder(l.DataDir)))
	require.NoError(t, Run(t.Context(), c, Options{Source: url, Target: l.DataDir}), said)
	database = openFolder(t, datadir.DatabaseFolder(l.DataDir))
	require.Equal(t, before, read(t, database))
	requireClean(t, database)
	require.NoError(t, database.Close())
	require.Equal(t, receipt, replayed(l.DataDir, ""))
	require.NoFileExists(t, datadir.ExternalStoreMarker(l.DataDir))
	_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	var refused *postgres.MigrationLockError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, postgres.MigrationMoved, refused.State)
}

// requireClean requires that a database passes the checks of fsck.
func requireClean(t *testing.T, database storage.Database) {
	t.Helper()
	infos, err := database.Ledgers(t.Context())
	require.NoError(t, err)
	walked := make(map[string]*audit.Report)
	for _, info := range infos {
		store, err := database.Ledger(t.Context(), info.Name)
		require.NoError(t, err)
		keys, err := ledger.ReadKeyHistory(t.Context(), store)
		require.NoError(t, err)
		report, err := audit.WalkLog(t.Context(), storeaudit.NewSource(store), audit.Options{Verifiers: keys.Verifiers(), Ledger: info.Name})
		require.NoError(t, err)
		require.Nil(t, report.Damage)
		walked[info.Name] = report
	}
	strays, err := storeaudit.FindStrayKeys(t.Context(), database, walked, nil)
	require.NoError(t, err)
	require.Empty(t, strays)
}

// If copying fails at any commit, the next run continues from there.
func TestCopyContinues(t *testing.T) {
	l := everyKind(t)
	database := openFolder(t, datadir.DatabaseFolder(l.DataDir))
	defer func() { require.NoError(t, database.Close()) }()
	want := read(t, database)[ledger.DefaultName]
	from, err := database.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	target := memory.New()
	info := want.Info
	_, err = target.CreateLedger(t.Context(), info)
	require.NoError(t, err)
	runs, most := 0, 0
	for mode := faulty.ModeFail; ; runs++ {
		// In each run, up to two commits succeed. The next one then either fails, or succeeds but
		// returns an error. The number of entries per commit differs from run to run.
		mode = map[bool]faulty.Mode{true: faulty.ModeFailAfterSuccess, false: faulty.ModeFail}[mode == faulty.ModeFail]
		failing := faulty.NewDatabase(target, faulty.New(faulty.Plan{Mode: mode, Calls: []string{"Commit"}, SkipCount: runs % 3, FailCount: 1}))
		to, err := failing.Ledger(t.Context(), ledger.DefaultName)
		require.NoError(t, err)
		c := newCopier(t.Context(), from, to, func(uint64) {})
		c.maxEntries = 1 + runs%7
		most = max(most, c.maxEntries)
		require.NoError(t, copySettings(t.Context(), from, to))
		if _, err = c.run(); err == nil {
			break
		}
		head, err := to.Head(t.Context())
		require.NoError(t, err)
		require.Equal(t, head.Size < want.Head.Size, len(head.Checkpoint) == 0, "only the last head may be signed")
	}
	require.Greater(t, runs, 10)
	require.Equal(t, 7, most)
	to, err := target.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, want, readLedger(t, to, info))
}

// Content that the source erases between two runs is erased in the copy too.
func TestErasedBetweenRuns(t *testing.T) {
	l := ledgertest.New(t, 20, 0, 0)
	target := memory.New()
	copied := func() storage.Store {
		database := openFolder(t, datadir.DatabaseFolder(l.DataDir))
		defer func() { require.NoError(t, database.Close()) }()
		from, err := database.Ledger(t.Context(), ledger.DefaultName)
		require.NoError(t, err)
		info, err := from.Info(t.Context())
		require.NoError(t, err)
		to, err := target.Ledger(t.Context(), ledger.DefaultName)
		if errors.Is(err, storage.ErrNotFound) {
			to, err = target.CreateLedger(t.Context(), info)
		}
		require.NoError(t, err)
		require.NoError(t, copySettings(t.Context(), from, to))
		_, err = copyLedger(t.Context(), from, to, func(uint64) {})
		require.NoError(t, err)
		require.Equal(t, readLedger(t, from, info), readLedger(t, to, info))
		return to
	}
	before := readLedger(t, copied(), storage.LedgerInfo{})
	at, stop := serve(t, l.DataDir, "")
	status, answer := ledgertest.Send(t, "DELETE", at+"/records/"+seqText(l.EventSeqs["other"])+"/content", `{"reason":"Asked for."}`, "application/json")
	stop()
	require.Equal(t, http.StatusCreated, status, answer)
	after := readLedger(t, copied(), storage.LedgerInfo{})
	require.Less(t, len(after.Contents), len(before.Contents))
	require.Len(t, after.Redactions, 2)
}

// A move that is interrupted between any two steps continues if it is run again with the same
// arguments. In the meantime, a server can start on at most one side.
func TestInterruptedMove(t *testing.T) {
	l := ledgertest.New(t, 5, 0, 5)
	url := emptyURL(t)
	serves := func() (folder, inDatabase bool) {
		n, err := openedNode(t, l.DataDir, "")
		if folder = err == nil; folder {
			require.NoError(t, n.Close())
		}
		database, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err == nil {
			infos, err := database.Ledgers(t.Context())
			require.NoError(t, err)
			inDatabase = len(infos) > 0
			require.NoError(t, database.Close())
		}
		require.False(t, folder && inDatabase)
		return folder, inDatabase
	}
	c, _ := console()
	for _, way := range []Options{{Source: l.DataDir, Target: url}, {Source: url, Target: l.DataDir}} {
		for step := 0; ; step++ {
			from, to, err := parsePlaces(c, way.Source, way.Target)
			require.NoError(t, err)
			steps := &steps{left: step}
			m := &move{console: c, from: stepped{from, steps}, to: stepped{to, steps}}
			err = m.run(t.Context())
			require.NoError(t, errors.Join(to.close(), from.close()))
			folder, inDatabase := serves()
			if err == nil {
				require.Equal(t, way.Source == url, folder)
				require.Equal(t, way.Target == url, inDatabase)
				break
			}
			require.ErrorIs(t, err, errStep)
		}
		require.NoError(t, os.RemoveAll(datadir.MovedDatabaseFolder(l.DataDir)))
		if way.Target == url {
			continue
		}
		database := openFolder(t, datadir.DatabaseFolder(l.DataDir))
		requireClean(t, database)
		require.NoError(t, database.Close())
	}
}

var errStep = errors.New("interrupted by the test")

// steps counts down the steps until an interruption.
type steps struct{ left int }

func (s *steps) next() error {
	if s.left--; s.left < 0 {
		return errStep
	}
	return nil
}

// stepped is one side of a move. Its methods hold, leave, and arrive fail once no steps are left.
type stepped struct {
	place
	*steps
}

func (s stepped) around(step func() error) error {
	if err := s.next(); err != nil {
		return err
	}
	if err := step(); err != nil {
		return err
	}
	return s.next()
}

func (s stepped) hold(ctx context.Context, peer place) error {
	return s.around(func() error { return s.place.hold(ctx, peer) })
}

func (s stepped) leave(ctx context.Context, peer place) error {
	return s.around(func() error { return s.place.leave(ctx, peer) })
}

func (s stepped) arrive(ctx context.Context) error {
	return s.around(func() error { return s.place.arrive(ctx) })
}

// A move can be undone unless a server has written to the target.
func TestUndo(t *testing.T) {
	l, url := ledgertest.New(t, 5, 0, 0), emptyURL(t)
	c, said := console()
	run := func(from, to string, undo bool) error {
		return Run(t.Context(), c, Options{Source: from, Target: to, Undo: undo})
	}
	require.NoError(t, run(l.DataDir, url, false))
	require.NoError(t, run(l.DataDir, url, true), said)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.ErrorAs(t, err, new(*postgres.MigrationLockError), "the copy is no longer a ledger")
	at, stop := serve(t, l.DataDir, "")
	status, _ := ledgertest.Send(t, "POST", at+"/ipc-records", `{"payload":{"q":"After?"},"output":"After.","model":"m1"}`, "application/json")
	stop()
	require.Equal(t, http.StatusCreated, status)

	// The ledgers are moved again, including the new record. A server then writes to the database.
	require.NoError(t, run(l.DataDir, url, false), said)
	at, stop = serve(t, l.DataDir, url)
	require.Equal(t, l.Size+1, ledgertest.TreeSize(t, at))
	status, _ = ledgertest.Send(t, "POST", at+"/ipc-records", `{"payload":{"q":"There?"},"output":"There.","model":"m1"}`, "application/json")
	stop()
	require.Equal(t, http.StatusCreated, status)
	require.ErrorContains(t, run(l.DataDir, url, true), "the move cannot be undone")
	at, stop = serve(t, l.DataDir, url)
	require.Equal(t, l.Size+2, ledgertest.TreeSize(t, at))
	stop()

	// The ledgers are moved back, and then that move is undone.
	require.NoError(t, os.RemoveAll(datadir.MovedDatabaseFolder(l.DataDir)))
	require.NoError(t, run(url, l.DataDir, false), said)
	require.NoError(t, run(url, l.DataDir, true), said)
	at, stop = serve(t, l.DataDir, url)
	require.Equal(t, l.Size+2, ledgertest.TreeSize(t, at))
	stop()
}

// Run refuses invalid arguments and unsuitable sources or targets, and changes nothing.
func TestRefusedMoves(t *testing.T) {
	l, other, url := ledgertest.New(t, 0, 0, 0), ledgertest.New(t, 0, 0, 0), emptyURL(t)
	c, _ := console()
	refused := func(from, to, message string) {
		t.Helper()
		err := Run(t.Context(), c, Options{Source: from, Target: to})
		var exit *cli.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, cli.ExitUsage, exit.Code)
		require.ErrorContains(t, err, message)
	}
	refused(l.DataDir, "", "--from and --to are required")
	refused(l.DataDir, other.DataDir, "--from and --to: one must be a data folder")
	refused(filepath.Join(t.TempDir(), "none"), url, "has no database")
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "notes.txt"), nil, 0o600))
	refused(url, foreign, "contains no ledger but contains other files")
	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url}))
	refused(other.DataDir, url, "already has ledgers")
	refused(url, other.DataDir, "already has ledgers")
	refused(l.DataDir, emptyURL(t), "moved elsewhere")
	_, stop := serve(t, l.DataDir, url)
	stop()
	_, stop = serve(t, other.DataDir, "")
	stop()
	_, err := openedNode(t, l.DataDir, "")
	require.ErrorContains(t, err, "the log of the folder "+l.DataDir+" was moved to another database")
}

// A damaged source is not moved.
func TestDamagedSource(t *testing.T) {
	l := ledgertest.New(t, 300, 0, 0)
	source := openFolder(t, datadir.DatabaseFolder(l.DataDir))
	defer func() { require.NoError(t, source.Close()) }()
	from, err := source.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	head, err := from.Head(t.Context())
	require.NoError(t, err)
	signer, err := datadir.KeyFiles(l.DataDir).Load(ledger.DefaultName)
	require.NoError(t, err)
	signedRoot, err := proofs.SignCheckpoint(proofs.Checkpoint{Origin: signer.Origin(), Size: head.Size, Root: proofs.Hash{1}}, signer)
	require.NoError(t, err)
	for name, damage := range map[string]func(*damagedReader){
		"an entry":          func(r *damagedReader) { r.entry = 7 },
		"the last entry":    func(r *damagedReader) { r.entry = head.Size - 1 },
		"a missing content": func(r *damagedReader) { r.noContent = true },
		"a changed content": func(r *damagedReader) { r.badContent = true },
		"the head":          func(r *damagedReader) { r.tip = true },
		"the checkpoint":    func(r *damagedReader) { r.checkpoint = true },
		"the root":          func(r *damagedReader) { r.signed = signedRoot },
		"a short log":       func(r *damagedReader) { r.end = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			target := memory.New()
			info, err := from.Info(t.Context())
			require.NoError(t, err)
			to, err := target.CreateLedger(t.Context(), info)
			require.NoError(t, err)
			r := &damagedReader{Reader: from, entry: ^uint64(0), end: ^uint64(0)}
			damage(r)
			_, err = copyLedger(t.Context(), r, to, func(uint64) {})
			require.Error(t, err)
			require.True(t, errors.Is(err, ledger.ErrDamaged) || errors.Is(err, storage.ErrDamaged), err)
			stored, err := to.Head(t.Context())
			require.NoError(t, err)
			require.Empty(t, stored.Checkpoint)
		})
	}
}

// A folder that a server uses is not moved.
func TestFolderInUse(t *testing.T) {
	l, url := ledgertest.New(t, 0, 0, 0), emptyURL(t)
	n := openNode(t, l.DataDir, "")
	c, _ := console()
	err := Run(t.Context(), c, Options{Source: l.DataDir, Target: url})
	var exit *cli.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitInUse, exit.Code)
	require.NoError(t, n.Close())
	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url}))
	n = openNode(t, l.DataDir, url)
	err = Run(t.Context(), c, Options{Source: url, Target: l.DataDir})
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitInUse, exit.Code)
	require.NoError(t, n.Close())
	_, err = os.Stat(datadir.IncomingDatabaseFolder(l.DataDir))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A server that uses the database with a different data folder can no longer write once the move
// has begun.
func TestServerDuringMove(t *testing.T) {
	l, url := ledgertest.New(t, 5, 0, 0), emptyURL(t)
	c, _ := console()
	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url}))
	running, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	store, err := running.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, Run(t.Context(), c, Options{Source: url, Target: filepath.Join(t.TempDir(), "new")}))
	require.ErrorIs(t, store.SetSetting(t.Context(), "log", []byte("public")), storage.ErrConflict)
	_, err = running.CreateLedger(t.Context(), storage.LedgerInfo{Name: "late", Origin: "late"})
	require.ErrorAs(t, err, new(*postgres.MigrationLockError))
	_, err = running.Ledger(t.Context(), ledger.DefaultName)
	require.Error(t, err)
	require.NoError(t, running.Close())
}

func seqText(seq uint64) string { return strconv.FormatUint(seq, 10) }

// Tokens move with the ledgers: a token that was revoked on one side does not become valid
// again on the other.
func TestTokensMove(t *testing.T) {
	l, url := ledgertest.New(t, 0, 0, 0), emptyURL(t)
	c, said := console()
	folder := access.TokenStore{Dir: datadir.TokenFolder(l.DataDir), Now: time.Now}
	grants := []access.Grant{{Ledgers: []string{access.AllLedgers}, Scopes: access.ScopeRead}}
	for _, name := range []string{"one", "two", "three"} {
		_, err := folder.Create(access.TokenSpec{Name: name, Grants: grants})
		require.NoError(t, err)
	}
	states := func(s access.TokenStore) (states []string) {
		t.Helper()
		list, err := s.List()
		require.NoError(t, err)
		for _, token := range list {
			states = append(states, token.State(time.Now()))
		}
		return states
	}
	_, err := folder.Revoke("one")
	require.NoError(t, err)
	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url}), said)

	database, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	shared := access.TokenStore{SharedStore: database, Now: time.Now}
	require.Equal(t, []string{"revoked", "active", "active"}, states(shared))
	_, err = shared.Revoke("two")
	require.NoError(t, err)
	require.NoError(t, access.MoveTokens(folder.Dir, database), "a server on the folder puts the old file aside")
	require.NoError(t, database.Close())

	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url, Undo: true}), said)
	require.Equal(t, []string{"revoked", "revoked", "active"}, states(folder))
	_, err = folder.Revoke("three")
	require.NoError(t, err)
	require.NoError(t, Run(t.Context(), c, Options{Source: l.DataDir, Target: url}), said)
	require.NoError(t, os.RemoveAll(datadir.MovedDatabaseFolder(l.DataDir)))
	require.NoError(t, Run(t.Context(), c, Options{Source: url, Target: l.DataDir}), said)
	require.Equal(t, []string{"revoked", "revoked", "revoked"}, states(folder))
}

// Content that is erased while a growing ledger is copied is not in the copy.
func TestErasedDuringSnapshot(t *testing.T) {
	l := ledgertest.New(t, 30, 0, 30)
	n := openNode(t, l.DataDir, "")
	defer func() { require.NoError(t, n.Close()) }()
	of, err := n.Host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	var victims seqs.Set
	for _, name := range []string{"labelled", "other"} {
		victims.Add(l.EventSeqs[name])
	}
	from := &erasingReader{Reader: of.Reader(), at: 3, erase: func() {
		require.NoError(t, of.Redact(t.Context(), &victims, "asked", ledger.AnonymousActor, func(ledger.Ack, int) error { return nil }))
	}}
	target := memory.New()
	to, err := target.CreateLedger(t.Context(), of.Info())
	require.NoError(t, err)
	require.NoError(t, copyGrowing(t.Context(), from, to, func(uint64) {}))
	require.Nil(t, from.erase)
	got := readLedger(t, to, storage.LedgerInfo{})
	require.Equal(t, readLedger(t, of.Reader(), storage.LedgerInfo{}), got)
	require.Len(t, got.Redactions, 3)
}

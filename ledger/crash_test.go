package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
	"colophon/storage/memory"
	"colophon/storage/pebble"
	"colophon/storage/pebble/pebbletest"
	"colophon/storage/storagetest"
)

// acknowledged collects the acknowledgements that writers received.
type acknowledged struct {
	mu   sync.Mutex
	acks []ledger.Ack
}

func (a *acknowledged) add(ack ledger.Ack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acks = append(a.acks, ack)
}

func (a *acknowledged) all() []ledger.Ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.acks[:len(a.acks):len(a.acks)]
}

// If a commit fails, its records are not acknowledged, and the ledger calls Config.OnFatal to stop
// the process. After a restart the ledger continues, with or without these records.
func TestUnknownOutcomeStopsTheLedger(t *testing.T) {
	for name, fault := range map[string]storagetest.Fault{"nothing written": storagetest.FaultBeforeWrite, "all written": storagetest.FaultAfterWrite} {
		t.Run(name, func(t *testing.T) {
			inner := store(t, memory.New())
			f := storagetest.NewFaultyStore(inner)
			fatal := make(chan error, 1)
			c := config(t)
			c.OnFatal = func(err error) {
				fatal <- err
				runtime.Goexit()
			}
			l, err := ledger.Open(t.Context(), f, c)
			require.NoError(t, err)
			var before acknowledged
			for i := range 5 {
				before.add(post(t, l, ipc(t, fmt.Sprint(i), "x"), ""))
			}
			f.FailCommit(1, fault)
			_, err = l.Submit(submission(t, l, ipc(t, "lost", "x"), ""))
			require.ErrorIs(t, err, ledger.ErrOutcomeUnknown)
			require.ErrorIs(t, <-fatal, storagetest.ErrInjected)
			_, err = l.Submit(submission(t, l, ipc(t, "later", "x"), ""))
			require.ErrorIs(t, err, ledger.ErrOutcomeUnknown)

			again := open(t, inner, config(t))
			require.NoError(t, walk(t, again))
			for _, ack := range before.all() {
				require.NoError(t, verify(again, ack))
			}
			retried := post(t, again, ipc(t, "lost", "x"), "")
			if fault == storagetest.FaultAfterWrite {
				require.Equal(t, ledger.OutcomeReplayed, retried.Outcome)
			} else {
				require.Equal(t, ledger.OutcomeAppended, retried.Outcome)
			}
			require.EqualValues(t, 7, again.Head().Size)
			require.NoError(t, walk(t, again))
		})
	}
}

// cut is the state of the disk after a power cut, and the acknowledgements that were received
// before it.
type cut struct {
	operation int
	percent   int
	files     *pebbletest.CrashFS
	acks      []ledger.Ack
}

// Power cuts are simulated before every change to the file system in a series of commits, with the
// disk keeping none, half, or all of the unsynced data. After each restart, the receipt of every
// acknowledged event verifies, an audit finds no damage, and the ledger accepts writes.
func TestPowerCut(t *testing.T) {
	files := pebbletest.NewCrashFS()
	var acks acknowledged
	var cuts []cut
	files.BeforeEachOperation(func(operation int) {
		for _, percent := range []int{0, 50, 100} {
			cuts = append(cuts, cut{operation, percent, files.AfterPowerCut(percent, uint64(operation)), acks.all()})
		}
	})
	database, l, err := openOn(t, files)
	require.NoError(t, err)
	for i := range 12 {
		parallel(1+i%4, func(w int) {
			r := ipcOf(t, l.PayloadMemberSecret(), fmt.Sprintf("run/%d/%d", i, w), fmt.Sprint("output ", i, w))
			ack, err := l.Submit(submission(t, l, r, ""))
			if err == nil {
				acks.add(ack)
			}
		})
	}
	require.NoError(t, l.Close())
	require.NoError(t, database.Close())
	files.BeforeEachOperation(nil)
	require.Len(t, acks.all(), 30)
	require.Greater(t, len(cuts), 100)
	for _, c := range cuts {
		require.NoError(t, c.check(t), "power cut before operation %d with %d %% of unsynced data kept", c.operation, c.percent)
	}
	t.Logf("%d power cuts, %d acknowledged events", len(cuts), len(acks.all()))
}

// openOn opens the ledger on a file system, creating it if it does not exist.
func openOn(t testing.TB, files *pebbletest.CrashFS) (storage.Database, *ledger.Ledger, error) {
	ctx := context.Background()
	database, err := pebble.Open(ctx, pebble.Config{Dir: "db", FS: files.FS(), Logger: discard(), Fatal: func(msg string) { panic(msg) }})
	if err != nil {
		return nil, nil, err
	}
	s, err := database.Ledger(ctx, ledger.DefaultName)
	if errors.Is(err, storage.ErrNotFound) {
		s, err = database.CreateLedger(ctx, storage.LedgerInfo{Name: ledger.DefaultName, Origin: "test.invalid/default"})
	}
	if err != nil {
		return nil, nil, errors.Join(err, database.Close())
	}
	l, err := ledger.Open(ctx, s, config(t))
	if err != nil {
		return nil, nil, errors.Join(err, database.Close())
	}
	return database, l, nil
}

// check compares the database after the cut with the acknowledgements. Like colophon fsck, it first
// opens the database read-only.
func (c cut) check(t testing.TB) error {
	if err := c.checkUntouched(t); err != nil {
		return fmt.Errorf("opened for reading: %w", err)
	}
	database, l, err := openOn(t, c.files)
	if err != nil {
		return err
	}
	err = c.checkLedger(t, l)
	if err == nil {
		err = checkNoStrayData(t, database, l.Reader())
	}
	return errors.Join(err, l.Close(), database.Close())
}

// checkNoStrayData audits the log and checks that the database holds nothing that the log does not refer to.
func checkNoStrayData(t testing.TB, database storage.Database, log storage.Reader) error {
	report, err := examine(log, signer(t).Verifier())
	if err != nil {
		return err
	}
	if report.Damage != nil {
		return report.Damage
	}
	strays, err := storeaudit.FindStrayKeys(t.Context(), database, map[string]*audit.Report{ledger.DefaultName: report}, nil)
	if err == nil && len(strays) > 0 {
		err = strays[0]
	}
	return err
}

// checkUntouched checks the database after the cut, opened read-only so that it does not recover.
func (c cut) checkUntouched(t testing.TB) (err error) {
	database, err := pebble.Open(t.Context(), pebble.Config{Dir: "db", FS: c.files.FS(), Logger: discard(), ReadOnly: true})
	if errors.Is(err, storage.ErrNotFound) && len(c.acks) == 0 {
		return nil // the database did not exist yet
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	store, err := database.Ledger(t.Context(), ledger.DefaultName)
	if errors.Is(err, storage.ErrNotFound) && len(c.acks) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	head, err := store.Head(t.Context())
	if err != nil || head.Size == 0 {
		return err
	}
	return checkNoStrayData(t, database, store)
}

func (c cut) checkLedger(t testing.TB, l *ledger.Ledger) error {
	if err := walk(t, l); err != nil {
		return err
	}
	for _, ack := range c.acks {
		if err := survived(l, ack); err != nil {
			return err
		}
	}
	if _, err := l.Submit(submission(t, l, ipcOf(t, l.PayloadMemberSecret(), "after", "the cut"), "")); err != nil {
		return err
	}
	return walk(t, l)
}

// survived checks that an acknowledged event is in the log unchanged, and that the log extends
// the tree that was acknowledged.
func survived(l *ledger.Ledger, ack ledger.Ack) error {
	ctx := context.Background()
	head := l.Head()
	if head.Size < ack.Head.Size {
		return fmt.Errorf("the log has %d events, but %d were acknowledged", head.Size, ack.Head.Size)
	}
	entry, err := l.Reader().Entry(ctx, ack.Seq)
	if err != nil {
		return err
	}
	if string(entry) != string(ack.Entry) {
		return fmt.Errorf("entry %d differs from the acknowledged one", ack.Seq)
	}
	if err := verify(l, ack); err != nil { // verifies the receipt against its checkpoint
		return err
	}
	path, err := l.Prover(ctx, head).ConsistencyProof(ack.Head.Size, head.Size)
	if err != nil {
		return err
	}
	return proofs.VerifyConsistency(ack.Head.Size, head.Size, ack.Head.Root, head.Root, path)
}

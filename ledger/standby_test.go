package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/keystore"
	"colophon/storage"
	"colophon/storage/memory"
)

// sharedDatabase is a database that several hosts share, with a single lease for all ledgers.
type sharedDatabase struct {
	storage.Database
	mu     sync.Mutex
	holder *hostDatabase // the host that holds the lease
}

func (l *sharedDatabase) give(to *hostDatabase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = to
}

// hostDatabase is the shared database as one host sees it.
type hostDatabase struct {
	*sharedDatabase
	older *storage.Head // the head that this host reads; nil means the newest
	fault error         // what this host gets if it reads a setting
}

func (l *hostDatabase) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder == l
}

func (l *hostDatabase) Ledger(ctx context.Context, name string) (storage.Store, error) {
	store, err := l.Database.Ledger(ctx, name)
	return leasedStore{store, l}, err
}

type leasedStore struct {
	storage.Store
	of *hostDatabase
}

func (s leasedStore) HoldsLease() bool { return s.of.held() }

func (s leasedStore) Head(ctx context.Context) (storage.Head, error) {
	if s.of.older != nil {
		return *s.of.older, nil
	}
	return s.Store.Head(ctx)
}

func (s leasedStore) Setting(ctx context.Context, name string) ([]byte, error) {
	if s.of.fault != nil {
		return nil, s.of.fault
	}
	return s.Store.Setting(ctx, name)
}

func (s leasedStore) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	if !s.HoldsLease() {
		return storage.ErrLeaseNotHeld
	}
	return s.Store.Commit(ctx, old, b)
}

// sharedHosts opens two hosts on one database with the same keys. The first host creates the
// default ledger and holds its lease. lost receives the errors that each host passes to
// Config.OnFatal.
func sharedHosts(t *testing.T) (l *sharedDatabase, databases [2]*hostDatabase, hosts [2]*ledger.Host, lost [2]chan error) {
	l = &sharedDatabase{Database: memory.New()}
	keys := keystore.KeyFiles{Dir: t.TempDir()}
	for i := range hosts {
		databases[i] = &hostDatabase{sharedDatabase: l}
		if i == 0 {
			l.give(databases[0])
		}
		lost[i] = make(chan error, 1)
		host, err := ledger.OpenHost(t.Context(), databases[i], keys, func(string) ledger.Config {
			return ledger.Config{OnFatal: func(err error) { lost[i] <- err }}
		})
		require.NoError(t, err)
		hosts[i] = host
		t.Cleanup(func() { require.NoError(t, host.Close()) })
		if i == 0 {
			_, err := host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
			require.NoError(t, err)
		}
	}
	return l, databases, hosts, lost
}

// event prepares the submission of a record without a run_id.
func event(t *testing.T, l *ledger.Ledger) ledger.Submission {
	return submission(t, l, ipcOf(t, l.PayloadMemberSecret(), "", "o"), "")
}

func openLedger(t *testing.T, h *ledger.Host) *ledger.Ledger {
	l, err := h.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	return l
}

// If another host holds the lease on a ledger, a host can only read the ledger. Refresh publishes
// the other host's commits and reports them to the functions registered with OnCommit.
func TestStandby(t *testing.T) {
	_, _, hosts, _ := sharedHosts(t)
	writer, reader := openLedger(t, hosts[0]), openLedger(t, hosts[1])
	require.True(t, hosts[0].Status(ledger.DefaultName) == ledger.StatusWritable)
	require.Equal(t, ledger.StatusReadOnly, hosts[1].Status(ledger.DefaultName))
	var seen []ledger.Commit
	reader.OnCommit(func(c ledger.Commit) { seen = append(seen, c) })
	_, err := reader.Submit(event(t, reader))
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld)
	require.ErrorIs(t, reader.CheckWritable(t.Context()), storage.ErrLeaseNotHeld)
	require.ErrorIs(t, reader.Freeze(t.Context()), storage.ErrLeaseNotHeld)
	_, err = hosts[1].RotateKey(t.Context(), ledger.DefaultName, "x")
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld)
	_, err = hosts[1].RetireKey(t.Context(), ledger.DefaultName, "x")
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld)

	for range 3 {
		_, err := writer.Submit(event(t, writer))
		require.NoError(t, err)
	}
	require.NoError(t, writer.SetLogPublic(t.Context(), true))
	require.Equal(t, uint64(1), reader.Head().Size)
	require.NoError(t, hosts[1].Refresh(t.Context(), ledger.DefaultName))
	require.Equal(t, writer.Head().Root, reader.Head().Root)
	require.Equal(t, writer.Head().Checkpoint, reader.Head().Checkpoint)
	require.True(t, reader.HasPublicLog())
	require.Len(t, seen, 1)
	require.Equal(t, 3, seen[0].EventCount)
	require.True(t, seen[0].ByOtherServer)
	_, err = reader.Checkpoint(t.Context(), reader.Head(), 2)
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld, "a reader signs nothing")

	require.NoError(t, writer.Freeze(t.Context()))
	require.NoError(t, hosts[1].Refresh(t.Context(), ledger.DefaultName))
	require.True(t, reader.Info().Frozen)
	_, err = reader.Submit(event(t, reader))
	require.ErrorIs(t, err, ledger.ErrFrozen)
}

// A ledger that has lost its lease commits nothing more and calls Config.OnFatal. OpenLedger opens
// it for reading while the other host continues the log.
func TestLostLedger(t *testing.T) {
	l, databases, hosts, lost := sharedHosts(t)
	writer := openLedger(t, hosts[0])
	_, err := writer.Submit(event(t, writer))
	require.NoError(t, err)
	var seen int
	writer.OnCommit(func(c ledger.Commit) { seen += c.EventCount })
	published := writer.PublishedLog()

	l.give(databases[1])
	require.NoError(t, hosts[1].CheckSigningKeys(t.Context(), ledger.DefaultName))
	second, err := hosts[1].OpenLedger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, ledger.StatusWritable, hosts[1].Status(ledger.DefaultName))
	_, err = second.Submit(event(t, second))
	require.NoError(t, err)

	_, err = writer.Submit(event(t, writer))
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld)
	require.NotErrorIs(t, err, ledger.ErrOutcomeUnknown)
	require.ErrorIs(t, <-lost[0], storage.ErrLeaseNotHeld)
	require.Equal(t, ledger.StatusClosed, hosts[0].Status(ledger.DefaultName))
	_, err = writer.Submit(event(t, writer))
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld)
	require.Equal(t, uint64(2), writer.Head().Size)

	reader, err := hosts[0].OpenLedger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, ledger.StatusReadOnly, hosts[0].Status(ledger.DefaultName))
	require.Equal(t, second.Head().Root, reader.Head().Root)
	_, err = second.Submit(event(t, second))
	require.NoError(t, err)
	require.NoError(t, hosts[0].Refresh(t.Context(), ledger.DefaultName))
	head, err := published.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(4), head.Size, "a PublishedLog of the closed ledger follows the reopened one")
	require.Equal(t, 1, seen)

	// The second host gives up the lease.
	hosts[1].StepDown(ledger.DefaultName)
	_, err = second.Submit(event(t, second))
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld)
	l.give(databases[0])
	first, err := hosts[0].OpenLedger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	_, err = first.Submit(event(t, first))
	require.NoError(t, err)
	require.Equal(t, 2, seen)
	require.NoError(t, hosts[0].Refresh(t.Context(), ledger.DefaultName), "a closed ledger publishes nothing")
	require.Equal(t, uint64(5), first.Head().Size)
}

// Refresh does not change a ledger that StepDown has closed. The closed ledger therefore cannot
// replace the head of the reopened ledger with an older one.
func TestClosedStandby(t *testing.T) {
	_, _, hosts, _ := sharedHosts(t)
	hosts[1].StepDown(ledger.DefaultName)
	writer := openLedger(t, hosts[0])
	_, err := writer.Submit(event(t, writer))
	require.NoError(t, err)
	require.NoError(t, hosts[1].Refresh(t.Context(), ledger.DefaultName))
	require.Equal(t, uint64(1), openLedger(t, hosts[1]).Head().Size)
	require.Equal(t, ledger.StatusClosed, hosts[1].Status(ledger.DefaultName))
}

// A host without the key cannot sign, but still follows the ledger.
func TestStandbyWithoutKey(t *testing.T) {
	l, _, hosts, _ := sharedHosts(t)
	other := &hostDatabase{sharedDatabase: l}
	host, err := ledger.OpenHost(t.Context(), other, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	require.ErrorIs(t, host.CheckSigningKeys(t.Context(), ledger.DefaultName), storage.ErrNotFound)
	_, err = openLedger(t, hosts[0]).Submit(event(t, openLedger(t, hosts[0])))
	require.NoError(t, err)
	require.NoError(t, host.Refresh(t.Context(), ledger.DefaultName))
	require.Equal(t, uint64(2), openLedger(t, host).Head().Size)

	_, err = hosts[0].RotateKey(t.Context(), ledger.DefaultName, "x")
	require.NoError(t, err)
	require.NoError(t, host.Refresh(t.Context(), ledger.DefaultName))
	require.Equal(t, openLedger(t, hosts[0]).VerifierKey(), openLedger(t, host).VerifierKey())
}

// A host does not follow a store that has lost events.
func TestStandbyOfAnOlderStore(t *testing.T) {
	_, databases, hosts, _ := sharedHosts(t)
	older, err := openLedger(t, hosts[0]).Reader().Head(t.Context())
	require.NoError(t, err)
	_, err = openLedger(t, hosts[0]).Submit(event(t, openLedger(t, hosts[0])))
	require.NoError(t, err)
	reader := openLedger(t, hosts[1])
	require.NoError(t, hosts[1].Refresh(t.Context(), ledger.DefaultName))
	require.Equal(t, uint64(2), reader.Head().Size)
	databases[1].older = &older
	require.ErrorIs(t, hosts[1].Refresh(t.Context(), ledger.DefaultName), highwater.ErrRollback)
	require.Equal(t, uint64(2), reader.Head().Size)
}

// If Config.RefuseOlderStandby is set, a host does not open a store that has lost entries published
// by that host. The host returns only checkpoints that it has published.
func TestMarkOfThePublishedHead(t *testing.T) {
	_, databases, hosts, _ := sharedHosts(t)
	writer := openLedger(t, hosts[0])
	marks := keystore.HighWaterMarkFiles{Dir: t.TempDir()}
	other := &hostDatabase{sharedDatabase: databases[0].sharedDatabase}
	open := func() (*ledger.Host, error) {
		return ledger.OpenHost(t.Context(), other, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config {
			return ledger.Config{HighWaterMarks: marks, EnableStandbyMark: true, RefuseOlderStandby: true}
		})
	}
	host, err := open()
	require.NoError(t, err)
	older, err := writer.Reader().Head(t.Context())
	require.NoError(t, err)
	for range 3 {
		_, err := writer.Submit(event(t, writer))
		require.NoError(t, err)
		_, err = writer.Submit(event(t, writer))
		require.NoError(t, err)
		require.NoError(t, host.Refresh(t.Context(), ledger.DefaultName))
	}
	l := openLedger(t, host)
	for size := range uint64(7) {
		note, err := l.Checkpoint(t.Context(), l.Head(), size+1)
		if size%2 == 1 {
			require.ErrorIs(t, err, storage.ErrLeaseNotHeld)
			continue
		}
		require.NoError(t, err)
		want, err := writer.Checkpoint(t.Context(), writer.Head(), size+1)
		require.NoError(t, err)
		require.Equal(t, string(want), string(note))
	}
	require.NoError(t, host.Close())

	other.older = &older
	_, err = open()
	require.ErrorIs(t, err, highwater.ErrRollback)
	other.older = nil
	host, err = open()
	require.NoError(t, err)
	require.NoError(t, host.Close())
}

// If the shared database was replaced by an older copy, a host that only read the newer one does not
// write the copy, and keeps its mark.
func TestFollowerDoesNotWriteAnOlderStore(t *testing.T) {
	shared := &sharedDatabase{Database: memory.New()}
	keys := keystore.KeyFiles{Dir: t.TempDir()}
	first, follower := &hostDatabase{sharedDatabase: shared}, &hostDatabase{sharedDatabase: shared}
	shared.give(first)
	creator, err := ledger.OpenHost(t.Context(), first, keys, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, creator.Close()) })
	writer, err := creator.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	marks := keystore.HighWaterMarkFiles{Dir: t.TempDir()}
	open := func() *ledger.Host {
		host, err := ledger.OpenHost(t.Context(), follower, keys, func(string) ledger.Config {
			return ledger.Config{HighWaterMarks: marks, EnableStandbyMark: true}
		})
		require.NoError(t, err)
		return host
	}
	older, err := writer.Reader().Head(t.Context())
	require.NoError(t, err)
	host := open()
	_, err = writer.Submit(event(t, writer))
	require.NoError(t, err)
	require.NoError(t, host.Refresh(t.Context(), ledger.DefaultName))
	require.NoError(t, host.Close())
	mark, err := marks.Mark(ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, string(writer.Head().Checkpoint), string(mark))

	follower.older = &older
	host = open()
	l := openLedger(t, host)
	require.Equal(t, uint64(1), l.Head().Size)
	shared.give(follower)
	// An attempt that fails after the head was loaded does not change the mark, and neither does closing again.
	follower.fault = storage.ErrUnavailable
	_, err = host.OpenLedger(t.Context(), ledger.DefaultName)
	require.ErrorIs(t, err, storage.ErrUnavailable)
	host.StepDown(ledger.DefaultName)
	follower.fault = nil
	l, err = host.OpenLedger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	require.ErrorIs(t, l.CheckWritable(t.Context()), highwater.ErrRollback)
	require.NoError(t, host.Close())
	kept, err := marks.Mark(ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, string(mark), string(kept))
}

// Who holds a ledger from before a change of roles sees the settings and keys of the reopened one.
func TestReopenedLedgerSharesItsState(t *testing.T) {
	l, databases, hosts, _ := sharedHosts(t)
	before := openLedger(t, hosts[1])
	hosts[0].StepDown(ledger.DefaultName)
	l.give(databases[1])
	now, err := hosts[1].OpenLedger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	require.NotSame(t, before, now)
	require.NoError(t, now.SetLogPublic(t.Context(), true))
	require.True(t, before.HasPublicLog())
	_, err = hosts[1].RotateKey(t.Context(), ledger.DefaultName, "x")
	require.NoError(t, err)
	require.Equal(t, now.VerifierKey(), before.VerifierKey())
	require.Equal(t, now.KeyHistory(), before.KeyHistory())
}

// replaceableStore is a store whose lease another host holds. A test can replace the embedded store.
type replaceableStore struct{ storage.Store }

func (*replaceableStore) HoldsLease() bool { return false }

type replaceableDatabase struct {
	storage.Database
	store *replaceableStore
}

func (d replaceableDatabase) Ledger(context.Context, string) (storage.Store, error) {
	return d.store, nil
}

// A host does not follow a store that was rolled back and then continued differently.
func TestStandbyOfAFork(t *testing.T) {
	logs := [2]*memory.Database{memory.New(), memory.New()}
	var stores [2]storage.Store
	for i, events := range []int{2, 4} {
		stores[i] = store(t, logs[i])
		l := open(t, stores[i], config(t))
		for n := range events {
			post(t, l, ipc(t, "", fmt.Sprint(i, n)), "")
		}
	}
	shared := &replaceableStore{stores[0]}
	host, err := ledger.OpenHost(t.Context(), replaceableDatabase{logs[0], shared}, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	require.NoError(t, host.Refresh(t.Context(), ledger.DefaultName))
	seen := openLedger(t, host).Head()
	require.Equal(t, uint64(3), seen.Size)
	shared.Store = stores[1]
	require.ErrorIs(t, host.Refresh(t.Context(), ledger.DefaultName), highwater.ErrRollback)
	require.Equal(t, seen, openLedger(t, host).Head())
}

package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// member opens a shared database as a server with the given ID.
func member(t *testing.T, url, id string) *Database {
	t.Helper()
	db, err := Open(t.Context(), Config{URL: url, Logger: silent(), LedgerServer: &LedgerServer{ID: id, Address: "http://" + id}})
	require.NoError(t, err)
	t.Cleanup(func() {
		if !db.closed.Load() {
			require.NoError(t, db.Close())
		}
	})
	return db
}

// expire makes all leases in a database expire.
func expire(t *testing.T, url string) {
	t.Helper()
	_, err := connect(t, url).Exec(t.Context(), `UPDATE colophon_leases SET expires = clock_timestamp() - interval '1 second'`)
	require.NoError(t, err)
}

func storeOf(t *testing.T, db *Database, name string) storage.LeasedStore {
	t.Helper()
	store, err := db.Ledger(t.Context(), name)
	require.NoError(t, err)
	return store.(storage.LeasedStore)
}

func stateOf(t *testing.T, db *Database) LedgerState {
	t.Helper()
	states, err := db.Leases().States(t.Context())
	require.NoError(t, err)
	require.Len(t, states, 1)
	states[0].LeaseExpiry = time.Time{}
	return states[0]
}

// Only the server that holds the lease on a ledger can write to it. A server that has lost the
// lease finds out at its next write or renewal.
func TestLease(t *testing.T) {
	url := emptyURL(t)
	a, b := member(t, url, "a"), member(t, url, "b")
	first, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	var head storage.Head
	write := func(s storage.Store) error {
		next := batch(head, 2)
		err := s.Commit(t.Context(), head, next)
		if err == nil {
			head = next.Head
		}
		return err
	}
	require.NoError(t, write(first))
	require.Equal(t, LedgerState{Name: "default", Size: 2, Epoch: 1, Version: "2 false ", LeaseHolder: &LedgerServer{"a", "http://a"}, LeaseTaken: true}, stateOf(t, b))

	second := storeOf(t, b, "default")
	require.False(t, second.HoldsLease())
	for name, refused := range map[string]error{
		"commit": write(second), "freeze": second.Freeze(t.Context()), "setting": second.SetSetting(t.Context(), "log", nil),
		"writable": second.CheckWritable(t.Context()), "take": b.Leases().Take(t.Context(), "default", true, time.Time{}),
	} {
		require.ErrorIs(t, refused, storage.ErrLeaseNotHeld, name)
	}
	requireLog(t, second, head)
	require.NoError(t, write(first), "neither opening the ledger nor a refused write takes over its lease")

	expire(t, url)
	require.Nil(t, stateOf(t, b).LeaseHolder)
	require.NoError(t, a.Leases().Renew(t.Context()), "no server has taken the lease yet")
	require.Equal(t, "a", stateOf(t, b).LeaseHolder.ID)
	expire(t, url)
	require.NoError(t, b.Leases().Take(t.Context(), "default", false, time.Time{}))
	require.True(t, second.HoldsLease())
	require.True(t, b.Leases().HoldsLease("default"))
	require.True(t, a.Leases().HoldsLease("default"), "the server has not noticed the loss yet")
	require.ErrorIs(t, write(first), storage.ErrLeaseNotHeld)
	require.False(t, a.Leases().HoldsLease("default"))
	require.ErrorIs(t, first.CheckWritable(t.Context()), storage.ErrLeaseNotHeld)
	require.NoError(t, write(second))
	require.Equal(t, int64(2), stateOf(t, a).Epoch)

	expire(t, url)
	require.NoError(t, a.Leases().Take(t.Context(), "default", false, time.Time{}))
	require.NoError(t, b.Leases().Renew(t.Context()))
	require.False(t, second.HoldsLease(), "a renewal reveals the loss of the lease")
	require.NoError(t, write(first), "a lease can be taken again")
}

// If resume is true, a restarted server takes its own lease at once, before the lease expires. The
// earlier run can then no longer write.
func TestResumedLease(t *testing.T) {
	url := emptyURL(t)
	before := member(t, url, "a")
	store, err := before.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	again, other := member(t, url, "a"), member(t, url, "b")
	require.ErrorIs(t, other.Leases().Take(t.Context(), "default", true, time.Time{}), storage.ErrLeaseNotHeld)
	require.ErrorIs(t, again.Leases().Take(t.Context(), "default", false, time.Time{}), storage.ErrLeaseNotHeld)
	require.NoError(t, again.Leases().Take(t.Context(), "default", true, time.Time{}))
	require.NoError(t, storeOf(t, again, "default").Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)))
	require.ErrorIs(t, store.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)), storage.ErrLeaseNotHeld)
	require.NoError(t, again.Leases().Take(t.Context(), "default", false, time.Time{}), "the server's own lease")
	require.Equal(t, int64(3), stateOf(t, other).Epoch)
}

// If the database's clock is set back, the lease of a server that has stopped does not expire in
// time. Another server that has seen no renewal can still take the lease if it passes the lease's
// expiry time.
func TestStaleLease(t *testing.T) {
	url := emptyURL(t)
	a, b := member(t, url, "a"), member(t, url, "b")
	_, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	_, err = connect(t, url).Exec(t.Context(), `UPDATE colophon_leases SET expires = expires + interval '1 hour'`)
	require.NoError(t, err)
	expires := func() time.Time {
		states, err := b.Leases().States(t.Context())
		require.NoError(t, err)
		require.NotNil(t, states[0].LeaseHolder)
		return states[0].LeaseExpiry
	}
	seen := expires()
	require.ErrorIs(t, b.Leases().Take(t.Context(), "default", false, time.Time{}), storage.ErrLeaseNotHeld)
	require.NoError(t, a.Leases().Renew(t.Context()))
	require.ErrorIs(t, b.Leases().Take(t.Context(), "default", false, seen), storage.ErrLeaseNotHeld, "it was renewed")
	require.NoError(t, b.Leases().Take(t.Context(), "default", false, expires()))
}

// Release offers a ledger to one particular server or to any server.
func TestPassedLease(t *testing.T) {
	url := emptyURL(t)
	a, b, c := member(t, url, "a"), member(t, url, "b"), member(t, url, "c")
	store, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	require.NoError(t, a.Leases().Release(t.Context(), "default", &LedgerServer{"b", "http://b"}))
	require.ErrorIs(t, store.CheckWritable(t.Context()), storage.ErrLeaseNotHeld)
	state := stateOf(t, c)
	require.Equal(t, &LedgerServer{"b", "http://b"}, state.LeaseHolder)
	require.False(t, state.LeaseTaken)
	require.NoError(t, a.Leases().Renew(t.Context()))
	require.ErrorIs(t, c.Leases().Take(t.Context(), "default", false, time.Time{}), storage.ErrLeaseNotHeld)
	require.ErrorIs(t, a.Leases().Take(t.Context(), "default", true, time.Time{}), storage.ErrLeaseNotHeld)
	require.NoError(t, b.Leases().Take(t.Context(), "default", false, time.Time{}))
	require.NoError(t, a.Leases().Release(t.Context(), "default", nil), "releasing a ledger that another server holds changes nothing")
	require.True(t, stateOf(t, c).LeaseTaken)
	require.NoError(t, b.Leases().Release(t.Context(), "default", nil))
	require.Nil(t, stateOf(t, c).LeaseHolder)
	require.NoError(t, c.Leases().Take(t.Context(), "default", false, time.Time{}))
}

// Servers leaves out a server whose last heartbeat is too old.
func TestServers(t *testing.T) {
	url := emptyURL(t)
	a, b := member(t, url, "a"), member(t, url, "b")
	require.NoError(t, a.Leases().Heartbeat(t.Context(), nil))
	require.NoError(t, b.Leases().Heartbeat(t.Context(), []string{"default", "x"}))
	require.NoError(t, b.Leases().Heartbeat(t.Context(), []string{"default"}))
	servers, err := a.Leases().Servers(t.Context())
	require.NoError(t, err)
	for i := range servers {
		require.NotZero(t, servers[i].LastHeartbeat)
		servers[i].LastHeartbeat = time.Time{}
	}
	require.ElementsMatch(t, []RunningServer{{LedgerServer: LedgerServer{"a", "http://a"}, Ledgers: []string{}}, {LedgerServer: LedgerServer{"b", "http://b"}, Ledgers: []string{"default"}}}, servers)
	_, err = connect(t, url).Exec(t.Context(), `UPDATE colophon_servers SET seen = seen - $1::float8 * interval '1 millisecond' WHERE id = 'b'`, milliseconds(LeaseDuration+time.Minute))
	require.NoError(t, err)
	servers, err = a.Leases().Servers(t.Context())
	require.NoError(t, err)
	require.Len(t, servers, 1)
	require.NoError(t, a.Leases().Unregister(t.Context()))
	servers, err = a.Leases().Servers(t.Context())
	require.NoError(t, err)
	require.Empty(t, servers)
}

// LedgerState.Version changes whenever a server that follows the ledger must read it again.
func TestVersions(t *testing.T) {
	url := emptyURL(t)
	a := member(t, url, "a")
	store, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	seen := map[string]bool{stateOf(t, a).Version: true}
	for _, change := range []func() error{
		func() error { return store.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)) },
		func() error { return store.SetSetting(t.Context(), "log", []byte("public")) },
		func() error { return store.SetSetting(t.Context(), "log", []byte("private")) },
		func() error { return store.Freeze(t.Context()) },
	} {
		require.NoError(t, change())
		version := stateOf(t, a).Version
		require.False(t, seen[version], version)
		seen[version] = true
	}
}

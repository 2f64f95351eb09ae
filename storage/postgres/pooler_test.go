package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/postgres/pooler"
	"colophon/storage/postgres/postgrestest"
)

// A pooler in session mode gives each connection its own session, so everything works through it.
func TestPoolerInSessionMode(t *testing.T) {
	url := postgrestest.SharedServer(t).StartPooler(t, "session")
	require.NoError(t, probe(t, url))
	a, b := member(t, url, "a"), member(t, url, "b")
	store, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	first := batch(storage.Head{}, 2)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, first))
	require.NoError(t, a.Leases().Renew(t.Context()))
	require.NoError(t, a.Leases().Release(t.Context(), "default", nil))
	require.NoError(t, b.Leases().Take(t.Context(), "default", false, time.Time{}))
	second := batch(first.Head, 3)
	require.NoError(t, storeOf(t, b, "default").Commit(t.Context(), first.Head, second))
	requireLog(t, storeOf(t, b, "default"), second.Head)
	// PgBouncer resets the settings of the session before it gives the session to the next connection.
	require.NoError(t, b.Leases().Release(t.Context(), "default", nil))
	require.NoError(t, b.Close())
	third := member(t, url, "c")
	require.NoError(t, third.Leases().Take(t.Context(), "default", false, time.Time{}))
	require.NoError(t, storeOf(t, third, "default").Commit(t.Context(), second.Head, batch(second.Head, 1)))
}

// In transaction mode and statement mode, a setting made on one connection would apply to other
// connections. Open and Probe therefore refuse such a pooler.
func TestSharedSessionsAreRefused(t *testing.T) {
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			url := postgrestest.SharedServer(t).StartPooler(t, mode)
			var shared *pooler.SharedSessionError
			require.ErrorAs(t, probe(t, url), &shared)
			for _, readOnly := range []bool{false, true} {
				_, err := Open(t.Context(), Config{URL: url, Logger: silent(), ReadOnly: readOnly})
				require.ErrorAs(t, err, &shared)
			}
		})
	}
}

package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/postgres/postgrestest"
)

// If Config.RequirePrimary is set, neither Open nor a later operation uses a connection to a standby.
// Servers set Config.RequirePrimary. Commands do not, so they can read from a standby.
func TestStandby(t *testing.T) {
	server := postgrestest.Start(t)
	db := member(t, server.URL(), "a")
	store, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)))
	config := Config{URL: server.URL(), Logger: silent(), ReadOnly: true, RequirePrimary: true, LedgerServer: &LedgerServer{}}
	reader, err := Open(t.Context(), config)
	require.NoError(t, err)
	seen, err := reader.Ledger(t.Context(), "default")
	require.NoError(t, err)
	head, err := seen.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(1), head.Size)

	server.Stop()
	require.NoError(t, server.ConfigureStandby())
	require.NoError(t, server.Start())
	_, err = seen.Head(t.Context())
	require.ErrorIs(t, err, ErrStandby)
	_, err = seen.Entry(t.Context(), 0)
	require.ErrorIs(t, err, ErrStandby)
	_, err = reader.Leases().States(t.Context())
	require.ErrorIs(t, err, ErrStandby)
	_, err = reader.connect(t.Context())
	require.ErrorIs(t, err, ErrStandby)
	require.NoError(t, reader.Close())
	_, err = Open(t.Context(), config)
	require.ErrorIs(t, err, ErrStandby)
	require.NotContains(t, err.Error(), "\n")

	command, err := Open(t.Context(), Config{URL: server.URL(), Logger: silent(), ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, command.Close())
}

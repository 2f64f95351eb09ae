package postgres

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

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

// A server that opens the database warns about standbys that no commit waits for.
func TestAsynchronousStandbys(t *testing.T) {
	primary := postgrestest.Start(t)
	standbys := func() int {
		t.Helper()
		n, err := Probe(t.Context(), primary.URL())
		require.NoError(t, err)
		return n
	}
	warnings := func() string {
		t.Helper()
		var log bytes.Buffer
		db, err := Open(t.Context(), Config{URL: primary.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil)), LedgerServer: &LedgerServer{ID: "a"}})
		require.NoError(t, err)
		require.NoError(t, db.Close())
		return log.String()
	}
	require.Zero(t, standbys())
	require.NotContains(t, warnings(), "standbys")
	postgrestest.StartStandby(t, primary)
	require.Eventually(t, func() bool { return standbys() == 1 }, time.Minute, 10*time.Millisecond)
	require.Contains(t, warnings(), "synchronous_standby_names is empty")
	require.NoError(t, primary.Execute(`ALTER SYSTEM SET synchronous_standby_names = '`+postgrestest.StandbyName+`'`, `SELECT pg_reload_conf()`))
	require.Eventually(t, func() bool { return standbys() == 0 }, time.Minute, 10*time.Millisecond)
	require.NotContains(t, warnings(), "standbys")
}

package server

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/storage"
	"colophon/storage/postgres/postgrestest"
)

// A read-only server needs neither write permission nor a signing key. It takes no lease, and does not
// register itself in the database.
func TestReadOnlyOnAStore(t *testing.T) {
	server := postgrestest.SharedServer(t)
	schema := server.CreateSchema(t)
	url := server.URL("search_path", schema)
	log := slog.New(slog.DiscardHandler)
	config := sharing(t, url)
	writer, err := OpenNode(t.Context(), config, datadir.KeyFiles(config.DataDir), log)
	require.NoError(t, err)
	database, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	for _, statement := range []string{
		"CREATE ROLE reader_" + schema + " LOGIN", "GRANT USAGE ON SCHEMA " + schema + " TO reader_" + schema, "GRANT SELECT ON ALL TABLES IN SCHEMA " + schema + " TO reader_" + schema,
	} {
		_, err := database.Exec(t.Context(), statement)
		require.NoError(t, err)
	}

	config = sharing(t, server.URL("search_path", schema, "user", "reader_"+schema))
	config.ReadOnly = true
	reader, err := OpenNode(t.Context(), config, datadir.KeyFiles(config.DataDir), log)
	require.NoError(t, err)
	stalenessError := reader.stalenessError(config)
	require.NoError(t, stalenessError())
	l, err := reader.Host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, ledger.StatusReadOnly, reader.Host.Status(ledger.DefaultName))
	require.NoDirExists(t, datadir.KeyFiles(config.DataDir).Dir)
	before := l.Head()
	for i := range uint64(3) {
		w, err := writer.Host.Ledger(ledger.DefaultName)
		require.NoError(t, err)
		if i == 0 {
			require.NoError(t, w.SetLogPublic(t.Context(), true))
		}
		change := writer.Host.RotateKey
		if w.KeyHistory().OverlappingKey() != nil {
			change = writer.Host.RetireKey
		}
		_, err = change(t.Context(), ledger.DefaultName, "test")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return l.Head().Size == i+2 && l.HasPublicLog() }, time.Minute, time.Millisecond)
	}
	_, err = reader.Host.Create(t.Context(), ledger.CreateOptions{Name: "other"})
	require.Error(t, err)
	require.ErrorIs(t, l.CheckWritable(t.Context()), storage.ErrLeaseNotHeld)
	var servers int
	require.NoError(t, database.QueryRow(t.Context(), "SELECT count(*) FROM colophon_servers").Scan(&servers))
	require.Equal(t, 1, servers)

	// When the writer stops, the reader continues to serve without taking a lease.
	require.NoError(t, writer.Close())
	require.Eventually(t, func() bool {
		address, elsewhere := reader.cluster.WriterAddress(ledger.DefaultName)
		return elsewhere && address == ""
	}, time.Minute, time.Millisecond)
	require.Equal(t, ledger.StatusReadOnly, reader.Host.Status(ledger.DefaultName))
	require.NoError(t, stalenessError())

	// The reader refuses a head that does not extend the last head it served.
	_, err = database.Exec(t.Context(), "UPDATE colophon_heads SET size = 2")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return stalenessError() != nil }, time.Minute, time.Millisecond)
	require.Equal(t, uint64(4), l.Head().Size)
	_, err = database.Exec(t.Context(), "UPDATE colophon_heads SET size = 4")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return stalenessError() == nil }, time.Minute, time.Millisecond)
	require.NoError(t, reader.Close())

	// Even after a restart, the reader refuses a head that is older than the last head it served.
	_, err = database.Exec(t.Context(), "UPDATE colophon_heads SET (size, tip, time, checkpoint) = ($1, $2, $3, $4)",
		int64(before.Size), before.Tip[:], before.TimeMicros, before.Checkpoint)
	require.NoError(t, err)
	_, err = OpenNode(t.Context(), config, datadir.KeyFiles(config.DataDir), log)
	require.ErrorIs(t, err, highwater.ErrRollback)
	require.ErrorContains(t, err, "This server has already served a newer log")
	require.NoError(t, database.Close(t.Context()))
}

// A read-only server accepts the shared tokens, and stores nothing about them.
func TestReadOnlyTokens(t *testing.T) {
	url := emptyURL(t)
	log := slog.New(slog.DiscardHandler)
	first := sharing(t, url)
	made, err := access.TokenStore{Dir: datadir.TokenFolder(first.DataDir), Now: time.Now}.Create(access.TokenSpec{
		Name: "t", Grants: []access.Grant{{Ledgers: []string{access.AllLedgers}, Scopes: access.ScopeRead}}})
	require.NoError(t, err)
	g, err := openGate(t.Context(), first, log)
	require.NoError(t, err)
	require.NoError(t, g.close())

	config := sharing(t, url)
	config.ReadOnly = true
	g, err = openGate(t.Context(), config, log)
	require.NoError(t, err)
	require.True(t, g.answers(t, made.Text))
	require.False(t, g.answers(t, "other"))
	require.NoError(t, g.close())
}

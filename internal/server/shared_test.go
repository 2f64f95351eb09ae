package server

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/storage/postgres"
	"colophon/storage/postgres/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// sharing returns the configuration of a server with its own data folder and a shared database.
func sharing(t *testing.T, url string) Config {
	return Config{DataDir: filepath.Join(t.TempDir(), "data"), StoreURL: url}.WithDefaults()
}

func emptyURL(t *testing.T) string {
	s := postgrestest.SharedServer(t)
	return s.URL("search_path", s.CreateSchema(t))
}

func (g gate) answers(t *testing.T, token string) bool {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	_, err := g.who.Authenticate(r)
	return err == nil
}

// Servers that share a database also share the tokens that the first server had in its data folder.
func TestServersShareTokens(t *testing.T) {
	url := emptyURL(t)
	log := slog.New(slog.DiscardHandler)
	one, two := sharing(t, url), sharing(t, url)
	grants := []access.Grant{{Ledgers: []string{access.AllLedgers}, Scopes: access.ScopeRead}}
	made, err := access.TokenStore{Dir: datadir.TokenFolder(one.DataDir), Now: time.Now}.Create(access.TokenSpec{Name: "old", Grants: grants})
	require.NoError(t, err)
	var gates []gate
	for _, config := range []Config{one, two} {
		g, err := openGate(t.Context(), config, log)
		require.NoError(t, err)
		require.True(t, g.who.RequiresIdentity())
		gates = append(gates, g)
	}
	database, err := postgres.Open(t.Context(), postgres.Config{URL: url, Logger: log})
	require.NoError(t, err)
	store := access.TokenStore{SharedStore: database, Now: time.Now}
	fresh, err := store.Create(access.TokenSpec{Name: "fresh", Grants: grants})
	require.NoError(t, err)
	for _, g := range gates {
		require.True(t, g.answers(t, made.Text))
		require.Eventually(t, func() bool { return g.answers(t, fresh.Text) }, time.Minute, 10*time.Millisecond)
	}
	_, err = store.Revoke("old")
	require.NoError(t, err)
	for _, g := range gates {
		require.Eventually(t, func() bool { return !g.answers(t, made.Text) }, time.Minute, 10*time.Millisecond)
		require.NoError(t, g.close())
	}
	require.NoError(t, database.Close())

	// A server does not start if its data folder has a token that the database does not know.
	three := sharing(t, url)
	_, err = access.TokenStore{Dir: datadir.TokenFolder(three.DataDir), Now: time.Now}.Create(access.TokenSpec{Name: "stranger", Grants: grants})
	require.NoError(t, err)
	_, err = openGate(t.Context(), three, log)
	require.ErrorContains(t, err, `has token "stranger"`)
}

// A server that does not start for lack of credentials closes its connections to the database.
func TestFailedGateClosesItsConnections(t *testing.T) {
	s := postgrestest.SharedServer(t)
	config := sharing(t, s.URL("search_path", s.CreateSchema(t), "application_name", "gate"))
	config.ListenAddress = "0.0.0.0:0"
	_, err := openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "there is no authentication")
	conn, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.Eventually(t, func() bool { // PostgreSQL notices a closed connection a little later
		var left int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gate'`).Scan(&left))
		return left == 0
	}, 10*time.Second, 10*time.Millisecond)
}

// A server that follows a ledger uses the settings that the ledger's writer has stored.
func TestServersShareSettings(t *testing.T) {
	url := emptyURL(t)
	log := slog.New(slog.DiscardHandler)
	config := sharing(t, url)
	one, err := OpenNode(t.Context(), config, datadir.KeyFiles(config.DataDir), log)
	require.NoError(t, err)
	config = sharing(t, url)
	two, err := OpenNode(t.Context(), config, datadir.KeyFiles(config.DataDir), log)
	require.NoError(t, err)
	first, err := one.Host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	second, err := two.Host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	for _, public := range []bool{true, false} {
		require.NoError(t, first.SetLogPublic(t.Context(), public))
		require.NoError(t, first.SetRejectUnregisteredSources(t.Context(), public))
		require.Eventually(t, func() bool { return second.HasPublicLog() == public && second.RejectsUnregisteredSources() == public }, time.Minute, 10*time.Millisecond)
	}
	require.False(t, second.Info().Frozen)
	require.NoError(t, first.Freeze(t.Context()))
	require.Eventually(t, func() bool { return second.Info().Frozen }, time.Minute, 10*time.Millisecond)
	require.NoError(t, two.Close())
	require.NoError(t, one.Close())
}

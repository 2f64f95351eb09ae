package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
)

// Under load, a server opens at most as many connections as docs/servers.md states: 2 N + 12, where
// N is pool_max_conns.
func TestConnectionsOfServer(t *testing.T) {
	const most = 3 // value of pool_max_conns
	database := postgrestest.Start(t)
	s := startServer(t, "COLOPHON_STORE="+database.URL("pool_max_conns", fmt.Sprint(most)))
	s.exercise("default")
	conn, err := pgx.Connect(t.Context(), database.URL())
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var load sync.WaitGroup
	for range 16 {
		load.Go(func() {
			for range 30 {
				for _, path := range []string{"/v1/ledgers/default/records/1/content/output", "/v1/ledgers/default/events?limit=5", "/v1/ledgers/default/log/tile/entries/000.p/5"} {
					answer, err := http.Get(s.url + path)
					if err == nil {
						_ = answer.Body.Close()
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { load.Wait(); close(done) }()
	seen := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		var now int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'`).Scan(&now))
		seen = max(seen, now)
	}
	t.Logf("at most %d connections", seen)
	require.LessOrEqual(t, seen, 2*most+12)
	require.Greater(t, seen, most, "the load must use more connections than one pool has")
	for _, pool := range s.families()["colophon_storage_connections_limit"].GetMetric() {
		require.Equal(t, map[string]float64{"read": most, "write": 4}[pool.GetLabel()[0].GetValue()], pool.GetGauge().GetValue())
	}
}

// A server works behind a connection pooler in session mode. In transaction mode, where clients
// share database sessions, serve and doctor fail with an error that says how to configure the
// pooler.
func TestServerBehindPooler(t *testing.T) {
	database := postgrestest.SharedServer(t)
	startServer(t, "COLOPHON_STORE="+database.StartPooler(t, "session")).exercise("default")
	for _, command := range []string{"serve", "doctor"} {
		wrong := exec.Command(colophon, command, "--data", t.TempDir(), "--listen", "127.0.0.1:0")
		wrong.Env = append(os.Environ(), "COLOPHON_STORE="+database.StartPooler(t, "transaction"))
		out, err := wrong.CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Contains(t, strings.Join(strings.Fields(string(out)), " "), "set the pooler to session mode", command)
	}
}

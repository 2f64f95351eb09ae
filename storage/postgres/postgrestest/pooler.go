package postgrestest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// requirePooler names the environment variable that makes a test fail if PgBouncer is missing.
const requirePooler = "COLOPHON_REQUIRE_PGBOUNCER"

// StartPooler creates an empty database on the server, starts PgBouncer in front of it, and returns
// the URL of the database through PgBouncer. mode is session, transaction, or statement. PgBouncer
// stops at the end of the test. The test is skipped if PgBouncer is not installed.
func (s *Server) StartPooler(t testing.TB, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil && os.Getenv(requirePooler) == "" {
		t.Skip("PgBouncer is not installed: install Debian's package pgbouncer")
	}
	require.NoError(t, err)
	name := fmt.Sprintf("pooled%d", schemas.Add(1))
	conn, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))

	dir, err := os.MkdirTemp("", "pgbouncer") // a short path, because the length of socket paths is limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, give(dir))
	settings := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(settings, []byte(strings.Join([]string{
		"[databases]", fmt.Sprintf("%s = host=%s port=%d user=colophon", name, s.dir, port),
		"[pgbouncer]", "listen_addr =", "unix_socket_dir = " + dir, "auth_type = any", "pool_mode = " + mode, "",
	}, "\n")), 0o644)) // #nosec G306 -- another user reads it, and it has no secret
	require.NoError(t, os.Chmod(dir, 0o755))                          // #nosec G302 -- likewise
	end := strings.Replace(lifeline, "QUIT", "TERM", 1)               // PgBouncer does not exit on SIGQUIT
	command := exec.Command("sh", "-c", end, "sh", program, settings) // #nosec G204 -- a program for tests
	command.Dir, command.SysProcAttr = dir, unprivileged()
	log := new(strings.Builder)
	command.Stderr = log
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("PgBouncer:\n%s", log)
		}
	})
	const poolerPort = 6432 // only used in the name of PgBouncer's socket
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", poolerPort)))
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	}, startTime, 10*time.Millisecond)
	return connection(dir, poolerPort, []string{"dbname", name})
}

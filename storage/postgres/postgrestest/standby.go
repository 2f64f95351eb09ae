package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// StandbyName is the name by which synchronous_standby_names can refer to a standby.
const StandbyName = "standby"

// StartStandby creates and starts a standby that follows a running server. The standby stops at the
// end of the test.
func StartStandby(t testing.TB, primary *Server) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgres")
	require.NoError(t, err)
	s := &Server{dir: dir, programs: primary.programs}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, give(dir))
	command := exec.Command(s.ProgramPath("pg_basebackup"), "-D", s.data(), "-h", primary.dir, "-p", fmt.Sprint(port), "-U", "colophon", "-c", "fast", "--no-sync") // #nosec G204 -- a program of PostgreSQL, for tests
	command.Dir = dir
	command.SysProcAttr = unprivileged()
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, s.Configure(fmt.Sprintf("unix_socket_directories='%s'", dir), s.follows(primary)))
	require.NoError(t, os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o600))
	require.NoError(t, s.Start())
	return s
}

// follows returns the setting that makes a standby follow primary.
func (s *Server) follows(primary *Server) string {
	return fmt.Sprintf("primary_conninfo='host=%s port=%d user=colophon application_name=%s'", primary.dir, port, StandbyName)
}

// Execute runs statements as the superuser, and stops at the first one that fails.
func (s *Server) Execute(statements ...string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err == nil {
			_, err = conn.Exec(ctx, statement)
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// StopReplication stops replication to a standby, and waits until replication has stopped. The standby keeps
// the data that it has received.
func (s *Server) StopReplication() error {
	return s.Execute(`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`,
		`DO $$ BEGIN
			WHILE EXISTS (SELECT FROM pg_stat_wal_receiver) LOOP PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP;
		END $$`)
}

// Promote turns a standby into a primary whose commits do not wait for a standby.
func (s *Server) Promote() error {
	return s.Execute(`ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`, `SELECT pg_promote()`)
}

// URLWithFallback is like URL, but the connection string lists next as a second host.
func (s *Server) URLWithFallback(next *Server, options ...string) string {
	hosts := strings.Join([]string{s.dir, next.dir}, ",")
	ports := fmt.Sprintf("%d,%d", port, port)
	values := url.Values{"host": {hosts}, "port": {ports}, "user": {"colophon"}, "dbname": {"postgres"}, "sslmode": {"disable"}}
	for i := 0; i+1 < len(options); i += 2 {
		values.Set(options[i], options[i+1])
	}
	return "postgres://?" + values.Encode()
}

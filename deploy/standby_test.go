//go:build unix

package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
)

// firstPort and secondPort are the ports of the nodes that start as the primary and as the standby. They
// differ because both nodes create their sockets in the same folder.
const (
	firstPort  = 5432
	secondPort = 5433
)

// startStandby runs postgres/node.sh with the arguments from compose.postgres.yaml, as the user who owns
// the primary's folder. The node copies the PostgreSQL server at the given port and becomes its standby. It is
// stopped when the test ends.
func startStandby(t *testing.T, node, primary string, primaryPort, port int, environ, arguments []string) {
	t.Helper()
	owner, err := os.Stat(primary)
	require.NoError(t, err)
	ids := owner.Sys().(*syscall.Stat_t)
	folder, err := os.MkdirTemp("", "standby")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chown(folder, int(ids.Uid), int(ids.Gid)))
	script, err := os.ReadFile("postgres/node.sh") // copied below, because the standby's user might not be allowed to read this folder
	require.NoError(t, err)
	file := filepath.Join(folder, "node.sh")
	require.NoError(t, os.WriteFile(file, script, 0o644))
	// The standby stops when its standard input is closed, which happens even if the test is
	// killed.
	command := exec.Command("sh", append([]string{"-c", `exec 3<&0; sh "$0" "$@" </dev/null 3<&- & cat <&3; kill -QUIT $!; wait`, file}, arguments...)...)
	command.Dir = folder
	command.Env = append(environ, "NODE="+node, "PGDATA="+filepath.Join(folder, "node"), fmt.Sprintf("PRIMARY=%s port=%d", primary, primaryPort), fmt.Sprintf("PGPORT=%d", port))
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ids.Uid, Gid: ids.Gid}}
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	command.Stdout, command.Stderr = log, log
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the standby: %s", text)
		}
		require.NoError(t, log.Close())
	})
}

// The scripts in compose.postgres.yaml set up a primary whose commits wait for the standby. After the
// primary is lost, the commands in that file let the standby take over without losing a record, and give the
// new primary a standby.
func TestStandbyTakesOver(t *testing.T) {
	services := readCompose(t, "compose.postgres.yaml").Services
	arguments := services["postgres-1"].Command
	require.Equal(t, arguments, services["postgres-2"].Command)
	settings := slices.DeleteFunc(slices.Clone(arguments), func(argument string) bool { return argument == "-c" })
	primary := postgrestest.Start(t, settings...)
	dir := filepath.Dir(primary.SocketPath())
	environ := append(os.Environ(), "PATH="+filepath.Dir(primary.ProgramPath("psql"))+":"+os.Getenv("PATH"), "PGHOST="+dir,
		"POSTGRES_USER=colophon", "POSTGRES_DB=postgres", "POSTGRES_PASSWORD=secret", "PGPASSWORD=secret")
	setup := exec.Command("sh", "postgres/primary.sh")
	setup.Env = append(environ, "PGDATA="+filepath.Join(dir, "data"))
	out, err := setup.CombinedOutput()
	require.NoError(t, err, "%s", out)
	primary.Stop()
	require.NoError(t, primary.Start())
	startStandby(t, "postgres-2", dir, firstPort, secondPort, environ, arguments)

	// The URL lists both databases. The server uses the one that accepts writes.
	url := fmt.Sprintf("postgres://?host=%s,%s&port=%d,%d&user=colophon&dbname=postgres&sslmode=disable&target_session_attrs=read-write", dir, dir, firstPort, secondPort)
	s := startServer(t, "COLOPHON_STORE="+url) // its first commit waits for the standby
	s.exercise("default")
	conn, err := pgx.Connect(t.Context(), primary.URL())
	require.NoError(t, err)
	var state string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT sync_state FROM pg_stat_replication WHERE application_name = 'standby'`).Scan(&state))
	require.Equal(t, "sync", state)
	before := string(s.send(http.MethodGet, "/v1/ledgers/default/log/checkpoint", "", "", http.StatusOK))

	primary.Stop()
	text, err := os.ReadFile("compose.postgres.yaml")
	require.NoError(t, err)
	promote := regexp.MustCompile(`(?m) exec postgres-2 psql -U colophon (.*)$`).FindSubmatch(text)
	require.NotNil(t, promote)
	takeOver := exec.Command("sh", "-c", fmt.Sprintf("psql --no-psqlrc -v ON_ERROR_STOP=1 -U colophon -d postgres -p %d %s", secondPort, promote[1]))
	takeOver.Env = environ
	out, err = takeOver.CombinedOutput()
	require.NoError(t, err, "%s", out)
	startStandby(t, "postgres-1", dir, secondPort, firstPort, environ, arguments)
	promoted, err := pgx.Connect(t.Context(), primary.URL("port", fmt.Sprint(secondPort)))
	require.NoError(t, err)
	defer promoted.Close(t.Context())
	for _, setting := range settings {
		name, _, _ := strings.Cut(setting, "=")
		var source string
		require.NoError(t, promoted.QueryRow(t.Context(), `SELECT source FROM pg_settings WHERE name = $1`, name).Scan(&source))
		require.Equal(t, "command line", source, name)
	}
	require.Eventually(t, func() bool {
		answer, err := http.Post(s.url+"/v1/ledgers/default/ipc-records", "application/json", strings.NewReader(`{"run_id":"after",`+run+`,"output":"x"}`))
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusCreated || answer.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond)
	after := string(s.send(http.MethodGet, "/v1/ledgers/default/log/checkpoint", "", "", http.StatusOK))
	size := func(checkpoint string) (n int) {
		_, err := fmt.Sscan(strings.Split(checkpoint, "\n")[1], &n)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, size(before)+1, size(after), "no record may be lost")
}

// A node that has the data of a primary never runs as a standby: it could be the old primary, or the new one
// with old settings. The node that is the primary starts as the image starts it.
func TestRoleOfNode(t *testing.T) {
	programs, data := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(programs, "docker-entrypoint.sh"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755))
	run := func(node string) (string, error) {
		command := exec.Command("sh", "postgres/node.sh", "-c", "fsync=on")
		command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "PGDATA="+data, "PRIMARY=postgres-2", "NODE="+node)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	out, err := run("postgres-1")
	require.Error(t, err)
	require.Contains(t, out, "set POSTGRES_PRIMARY=postgres-1")
	out, err = run("postgres-2")
	require.NoError(t, err)
	require.Equal(t, "-c fsync=on\n", out)
}

//go:build unix

package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
)

// standbyPort is the standby's port. It differs from the primary's port because both servers create
// their sockets in the same folder.
const standbyPort = 5433

// startStandby runs postgres/standby.sh as the user who owns the primary's folder. The standby is
// stopped when the test ends.
func startStandby(t *testing.T, primary string, environ []string) {
	t.Helper()
	owner, err := os.Stat(filepath.Join(primary, "data"))
	require.NoError(t, err)
	ids := owner.Sys().(*syscall.Stat_t)
	data, err := os.MkdirTemp("", "standby")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(data)) })
	require.NoError(t, os.Chown(data, int(ids.Uid), int(ids.Gid)))
	script, err := os.ReadFile("postgres/standby.sh") // copied below, because the standby's user might not be allowed to read this folder
	require.NoError(t, err)
	file := filepath.Join(data, "standby.sh")
	require.NoError(t, os.WriteFile(file, script, 0o644))
	// The standby stops when its standard input is closed, which happens even if the test is
	// killed.
	command := exec.Command("sh", "-c", `exec 3<&0; sh "$0" </dev/null 3<&- & cat <&3; kill -QUIT $!; wait`, file)
	command.Dir = data
	command.Env = append(environ, "PGDATA="+data, fmt.Sprintf("PRIMARY=%s port=5432", primary), fmt.Sprintf("PGPORT=%d", standbyPort))
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

// The scripts in compose.postgres.yaml set up a primary whose commits wait for the standby. After
// the primary is lost, the commands in that file let the standby take over without losing a record.
func TestStandbyTakesOver(t *testing.T) {
	primary := postgrestest.Start(t)
	dir := filepath.Dir(primary.SocketPath())
	environ := append(os.Environ(), "PATH="+filepath.Dir(primary.ProgramPath("psql"))+":"+os.Getenv("PATH"), "PGHOST="+dir,
		"POSTGRES_USER=colophon", "POSTGRES_DB=postgres", "POSTGRES_PASSWORD=secret", "PGPASSWORD=secret")
	setup := exec.Command("sh", "postgres/primary.sh")
	setup.Env = append(environ, "PGDATA="+filepath.Join(dir, "data"))
	out, err := setup.CombinedOutput()
	require.NoError(t, err, "%s", out)
	primary.Stop()
	require.NoError(t, primary.Start())
	startStandby(t, dir, environ)

	// The URL lists both databases. The server uses the one that accepts writes.
	url := fmt.Sprintf("postgres://?host=%s,%s&port=5432,%d&user=colophon&dbname=postgres&sslmode=disable&target_session_attrs=read-write", dir, dir, standbyPort)
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
	_, commands, found := strings.Cut(string(text), "psql -U colophon ")
	require.True(t, found)
	commands, _, _ = strings.Cut(commands, "#\n")
	commands = strings.NewReplacer("\\\n", " ", "#", "").Replace(commands)
	takeOver := exec.Command("sh", "-c", fmt.Sprintf("psql --no-psqlrc -v ON_ERROR_STOP=1 -U colophon -d postgres -p %d %s", standbyPort, commands))
	takeOver.Env = environ
	out, err = takeOver.CombinedOutput()
	require.NoError(t, err, "%s", out)
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

package ha_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// ledgers lists the ledgers that the clients write to.
var ledgers = []string{"default", "second", "third"}

// server is a Colophon server process.
type server struct {
	*process
	data  string
	disk  bool // whether the data folder is on a separate small disk
	clock string
	url   string // URL that reaches the server directly, not through line
	line  *line  // relay through which clients and the other servers reach this server
}

// clientURL returns the URL at which clients reach the server through its line.
func (s *server) clientURL() string { return "http://" + s.line.address() }

// startServers starts count servers that share a database, and gives each of them the keys of all
// ledgers.
func startServers(t testing.TB, binary string, d *database, dir string, count int) []*server {
	t.Helper()
	primary := d.primary()
	require.NotNil(t, primary)
	require.NoError(t, primary.execute("postgres", `CREATE TABLE probe (n bigint)`, `CREATE ROLE colophon LOGIN`, `CREATE DATABASE colophon OWNER colophon`))
	var servers []*server
	for i := range count {
		s := startServer(t, binary, d.url(i), dir, "server"+strconv.Itoa(i+1), func(data string) {
			if i == 0 {
				return
			}
			keys, err := filepath.Glob(filepath.Join(servers[0].data, "keys", "*.key"))
			require.NoError(t, err)
			for _, key := range keys {
				text, err := os.ReadFile(key) // #nosec G304 -- of the test
				require.NoError(t, err)
				write(t, filepath.Join(folder(t, filepath.Join(data, "keys")), filepath.Base(key)), string(text), 0o600)
			}
		})
		for _, name := range ledgers[1:] {
			if i == 0 {
				answer, err := http.Post(s.url+"/v1/ledgers", "application/json", bytes.NewReader([]byte(`{"name":"`+name+`"}`)))
				require.NoError(t, err)
				text, _ := io.ReadAll(answer.Body)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", text)
			}
		}
		servers = append(servers, s)
	}
	return servers
}

// startServer starts a server and waits until it is ready. Before starting it, it calls prepare
// with the path of the empty data folder.
func startServer(t testing.TB, binary, store string, dir, name string, prepare func(data string)) *server {
	t.Helper()
	place, port := folder(t, filepath.Join(dir, name)), freePort(t)
	s := &server{disk: mountDisk(t, place, "256m"), data: folder(t, filepath.Join(place, "data")), clock: filepath.Join(dir, name+".clock"),
		url: "http://127.0.0.1:" + port, line: newLine(t, port)}
	prepare(s.data)
	s.process = start(t, dir, name, []string{"COLOPHON_STORE=" + store, "COLOPHON_TEST_CLOCK=" + s.clock, "GOMEMLIMIT=200MiB"},
		binary, "serve", "--data", s.data, "--listen", "127.0.0.1:"+port, "--advertise", s.line.address(),
		"--trusted-proxies", "127.0.0.1/32", "--index-cache", "16MiB", "--min-free-space", "8MiB")
	require.Eventually(t, func() bool { return status(s.url+"/readyz") == http.StatusOK }, time.Minute, 50*time.Millisecond, "%s does not become ready", name)
	return s
}

// setClock sets the server's clock ahead of the real time by the given duration.
func (s *server) setClock(ahead time.Duration) {
	_ = os.WriteFile(s.clock, []byte(ahead.String()), 0o644) // #nosec G306 -- the server's user reads it
}

// clear undoes any lasting effects of faults on the server.
func (s *server) clear() {
	s.signal(syscall.SIGCONT)
	s.line.heal()
	_ = os.Remove(s.clock)
}

// verifier returns the verifier key of a ledger, as reported by the server.
func (s *server) verifier(t testing.TB, ledger string) *proofs.Verifier {
	t.Helper()
	answer, err := quick.Get(s.url + "/v1/ledgers/" + ledger)
	require.NoError(t, err)
	defer answer.Body.Close()
	var row struct {
		VerifierKey string `json:"verifier_key"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&row))
	key, err := proofs.ParseVerifier(row.VerifierKey)
	require.NoError(t, err)
	return key
}

package interop_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// server is a process that runs the serve command.
type server struct {
	t       testing.TB
	process *os.Process
	data    string
	copied  string // folder that contains the published copies of public logs
	url     string // URL of the server, without a trailing slash
	token   string // token with all scopes; "" while the server requires no credentials
	key     string // verifier key of the default ledger, as the server printed it
}

// start starts a server that requires credentials, and whose default ledger has a public log.
func start(t testing.TB) *server {
	t.Helper()
	s := startOpen(t)
	s.do(http.MethodPut, "/v1/ledgers/default/visibility", []byte(`{"log":"public"}`), http.StatusOK)
	s.protect()
	return s
}

// protect creates a token. Once a token exists, clients without one can read only public logs.
func (s *server) protect() {
	s.t.Helper()
	made, err := exec.Command(tools.colophon, "token", "create", "--data", s.data, "--name", "all", "--ledger", "*",
		"--scope", "write,read,content,log,admin,metrics").Output()
	require.NoError(s.t, err)
	s.token = strings.TrimSpace(string(made))
}

// startOpen starts a server without authentication. The server is stopped when the test ends.
func startOpen(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, data: filepath.Join(t.TempDir(), "data"), copied: filepath.Join(t.TempDir(), "copy")}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	command := exec.Command(tools.colophon, "serve", "--data", s.data, "--listen", "127.0.0.1:0",
		"--publish", "file://"+s.copied, "--publish-every", "10ms")
	command.Stderr = log
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(syscall.SIGTERM))
		require.NoError(t, command.Wait())
		require.NoError(t, log.Close())
	})
	s.process = command.Process
	s.readBanner(out, log.Name())
	return s
}

// readBanner reads the server's URL and verifier key from the text that it prints when it is ready.
// log is the path of the server's log file.
func (s *server) readBanner(out io.Reader, log string) {
	s.t.Helper()
	lines := bufio.NewScanner(out)
	for s.key == "" {
		if !lines.Scan() {
			text, _ := os.ReadFile(log)
			require.FailNow(s.t, "the server did not start", "%s", text)
		}
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "  ")
		switch value = strings.TrimSpace(value); name {
		case "server":
			s.url = value
		case "verifier key":
			s.key = value
		}
	}
}

// origin returns the default ledger's origin, which is also the name of its key.
func (s *server) origin() string {
	name, _, _ := strings.Cut(s.key, "+")
	return name
}

// log returns the URL of the default ledger's log, which ends with a slash.
func (s *server) log() *url.URL {
	s.t.Helper()
	u, err := url.Parse(s.url + "/v1/ledgers/default/log/")
	require.NoError(s.t, err)
	return u
}

// do sends a request, with the token if there is one. It requires the given status and returns the
// response body. headers alternates between names and values.
func (s *server) do(method, path string, body []byte, status int, headers ...string) []byte {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, status, response.StatusCode, "%s %s: %.2000s", method, path, answer)
	return answer
}

// public requests a path below the default ledger's log without credentials. It requires the status
// 200 and returns the response body.
func (s *server) public(path string) []byte {
	s.t.Helper()
	response, err := http.Get(s.log().JoinPath(path).String())
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s: %s", path, answer)
	return answer
}

// size returns the number of events in the default ledger according to its checkpoint.
func (s *server) size() (size uint64) {
	s.t.Helper()
	lines := strings.Split(string(s.public("checkpoint")), "\n")
	require.Greater(s.t, len(lines), 3)
	_, err := fmt.Sscan(lines[1], &size)
	require.NoError(s.t, err)
	return size
}

// grow posts small records until the default ledger has size events.
func (s *server) grow(size uint64) {
	s.t.Helper()
	const most = 100_000 // maximum number of lines in a batch
	for at := s.size(); at < size; at = s.size() {
		var lines bytes.Buffer
		for i := at; i < min(size, at+most); i++ {
			fmt.Fprintf(&lines, `{"kind":"path_fingerprint","record":{"project":"p","route":["%d"]}}`+"\n", i)
		}
		s.do(http.MethodPost, "/v1/ledgers/default/batch", lines.Bytes(), http.StatusOK,
			"Content-Type", "application/x-ndjson", "Prefer", "return=minimal")
	}
	require.Equal(s.t, size, s.size())
}

// hashes sends a query to a proof endpoint and returns the hashes in the response.
func (s *server) hashes(query string) [][]byte {
	s.t.Helper()
	var answer struct {
		Hashes []hexadecimal `json:"hashes"`
	}
	require.NoError(s.t, json.Unmarshal(s.do(http.MethodGet, "/v1/ledgers/default/proofs/"+query, nil, http.StatusOK), &answer))
	hashes := make([][]byte, len(answer.Hashes))
	for i, h := range answer.Hashes {
		hashes[i] = h
	}
	return hashes
}

// hexadecimal is a byte string that is encoded in JSON as hexadecimal digits, as the hashes in the
// API are.
type hexadecimal []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hexadecimal) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

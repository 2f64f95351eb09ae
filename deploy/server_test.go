package deploy_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"colophon/proofs"
	"colophon/storage/postgres/postgrestest"
)

// server is a running Colophon server that was started with an empty data folder.
type server struct {
	t   *testing.T
	url string
}

// startServers starts two servers that share one database. The first one writes to the ledger
// "default".
func startServers(t *testing.T) []*server {
	t.Helper()
	database := postgrestest.SharedServer(t)
	signer, err := proofs.GenerateKey().Signer("log.example/default")
	require.NoError(t, err)
	shared := []string{"COLOPHON_STORE=" + database.URL("search_path", database.CreateSchema(t)), "COLOPHON_SIGNING_KEY_DEFAULT=" + signer.Secret()}
	var servers []*server
	for _, id := range []string{"server-1", "server-2"} { // rendezvous hashing prefers the first ID for the ledger "default"
		data := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(data, "store"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(data, "store", "server"), []byte(id+"\n"), 0o600))
		servers = append(servers, startServer(t, append(shared, "COLOPHON_DATA="+data)...))
	}
	return servers
}

// startServer starts a server with additional environment variables. The server publishes its
// default ledger and sends webhooks.
func startServer(t *testing.T, environ ...string) *server {
	t.Helper()
	return startWith(t, []string{"--publish", "file://" + t.TempDir(), "--publish-ledgers", "default", "--webhooks", hooks(t)}, environ...)
}

// hooks writes a webhook configuration with a single receiver, which accepts every message, and
// returns the file's name.
func hooks(t *testing.T) (name string) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	folder := t.TempDir()
	name = filepath.Join(folder, "webhooks.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "secret"), []byte("a secret of a receiver in a test"), 0o600))
	require.NoError(t, os.WriteFile(name, []byte("- {name: pager, url: "+receiver.URL+", secret-file: secret}\n"), 0o600))
	return name
}

// startWith starts a server with additional flags and environment variables.
func startWith(t *testing.T, flags []string, environ ...string) *server {
	t.Helper()
	command := exec.Command(colophon, append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	command.Env = append(append(os.Environ(), "GOMEMLIMIT=1GiB", "COLOPHON_DATA="+t.TempDir()), environ...)
	log := new(bytes.Buffer)
	command.Stderr = log
	banner, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(syscall.SIGTERM))
		require.NoError(t, command.Wait(), "%s", log)
	})
	lines := bufio.NewScanner(banner)
	for lines.Scan() {
		if name, url, found := strings.Cut(strings.TrimSpace(lines.Text()), " "); found && name == "server" {
			go func() { _, _ = io.Copy(io.Discard, banner) }() // so that the server never blocks on its output
			return &server{t, strings.TrimSpace(url)}
		}
	}
	require.Fail(t, "the server did not start", "%s", log)
	return nil
}

// send sends a request, requires the given status, and returns the response body.
func (s *server) send(method, path, contentType, body string, status int) []byte {
	s.t.Helper()
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, status, response.StatusCode, "%s %s: %s", method, path, answer)
	return answer
}

func (s *server) post(path, body string, status int) {
	s.t.Helper()
	s.send(http.MethodPost, path, "application/json", body, status)
}

// run runs a colophon command against the server.
func (s *server) run(arguments ...string) {
	s.t.Helper()
	out, err := exec.Command(colophon, append(arguments, "--server", s.url)...).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}

// families returns the metrics that the server exports, keyed by name.
func (s *server) families() map[string]*dto.MetricFamily {
	s.t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(s.send(http.MethodGet, "/metrics", "", "", http.StatusOK)))
	require.NoError(s.t, err)
	return found
}

const (
	zeros = "0000000000000000000000000000000000000000000000000000000000000000"

	run        = `"payload":{"seed":1},"system_prompt":"Be brief.","model":"m","temperature":0,"max_tokens":9`
	wrongClaim = `{` + run + `,"output":"o","output_hash":"` + zeros + `"}`
	rejected   = `{"reject_inputs":{"question_hash":"` + zeros + `","preflight_hash":"` + zeros + `","rejection_reason":"unbounded"}}`
	citations  = `{"subject":"s","citations":[{"text":"a chunk","source_id":"book","weight":1}]}`
	path       = `{"project":"p","route":["Start"],"content":"Once."}`
)

// exercise posts data of every kind to a ledger so that every metric is exported: each kind of
// record twice, a batch, two refused records, a gap in a producer's sequence, and a state change.
func (s *server) exercise(name string) {
	s.t.Helper()
	ledger := "/v1/ledgers/" + name
	for _, output := range []string{"x", "y"} {
		s.post(ledger+"/ipc-records", `{`+run+`,"output":"`+output+`"}`, http.StatusCreated)
		s.post(ledger+"/run-dags", rejected, http.StatusCreated)
		s.post(ledger+"/citation-sets", citations, http.StatusCreated)
		s.post(ledger+"/path-fingerprints", path, http.StatusCreated)
	}
	s.post(ledger+"/ipc-records?on_mismatch=reject", wrongClaim, http.StatusUnprocessableEntity)
	s.post(ledger+"/ipc-records", `{"run_id":"one",`+run+`,"output":"x"}`, http.StatusCreated)
	s.post(ledger+"/ipc-records", `{"run_id":"one",`+run+`,"output":"y"}`, http.StatusConflict)
	for _, number := range []string{"0", "2"} { // leave out 1 to make a gap
		s.post(ledger+"/ipc-records", `{"producer":{"id":"p","seq":`+number+`},`+run+`,"output":"y"}`, http.StatusCreated)
	}
	s.post(ledger+"/records/1/state", `{"state":"quarantined","reason":"a test"}`, http.StatusCreated)
	s.send(http.MethodPost, ledger+"/batch", "application/x-ndjson", `{"kind":"path_fingerprint","record":`+path+"}\n", http.StatusOK)
	require.Eventually(s.t, s.folded, time.Minute, time.Millisecond)
}

// folded reports whether the indexes of all ledgers are up to date.
func (s *server) folded() bool {
	s.t.Helper()
	for _, m := range s.families()["colophon_index_lag_events"].GetMetric() {
		if m.GetGauge().GetValue() > 0 {
			return false
		}
	}
	return true
}

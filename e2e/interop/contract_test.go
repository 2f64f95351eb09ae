package interop_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const contract = "../../openapi.yaml"

// wantNode skips the test if Node or one of the packages installed by make interop is missing. If
// COLOPHON_REQUIRE_INTEROP is set, the test fails instead.
func wantNode(t testing.TB) {
	t.Helper()
	wantTools(t, "node")
	_, err := os.Stat("node/node_modules")
	if os.Getenv("COLOPHON_REQUIRE_INTEROP") != "" {
		require.NoError(t, err)
	}
	if err != nil {
		t.Skip("node/node_modules has no packages")
	}
}

// lint runs Redocly's linter on a document and returns its output.
func lint(t testing.TB, document string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", "node/lint.mjs", document).CombinedOutput()
	return string(out), err
}

func TestContractLints(t *testing.T) {
	wantNode(t)
	out, err := lint(t, contract)
	require.NoError(t, err, "%s", out)
	document := edited(t, contract, "operationId: getInclusionProof", "operationId: getConsistencyProof")
	out, err = lint(t, document)
	require.Error(t, err)
	require.Contains(t, out, "operation-operationId-unique")
}

// edited writes a copy of a document with old replaced by replacement, and returns the path of the
// copy. It requires that old occurs exactly once.
func edited(t testing.TB, document, old, replacement string) string {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), old), old)
	path := filepath.Join(t.TempDir(), "openapi.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), old, replacement, 1)), 0o600))
	return path
}

// withoutLines writes a copy of the contract without the schemas of NDJSON bodies, and returns its
// path. OpenAPI 3.0 cannot describe NDJSON, so the contract describes an array. Prism would reject
// the body, because it sees a string. The server's own tests check each line.
func withoutLines(t testing.TB) string {
	t.Helper()
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(readContract(t), &document))
	require.Positive(t, forgetLines(&document))
	text, err := yaml.Marshal(&document)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "openapi.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// forgetLines removes the schema of every NDJSON body below node, and returns how many it has
// removed.
func forgetLines(node *yaml.Node) (count int) {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && node.Content[i-1].Value == "application/x-ndjson" {
			*child = yaml.Node{Kind: yaml.MappingNode}
			count++
		}
		count += forgetLines(child)
	}
	return count
}

func readContract(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(contract)
	require.NoError(t, err)
	return text
}

// behind starts Prism as a proxy for s and returns a server that is reached through it. Prism
// checks each request and response against the document. If one does not conform, Prism responds
// with 422 or 500 instead.
func behind(s *server, document string) *server {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	host, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(s.t, err)
	require.NoError(s.t, listener.Close())
	var log bytes.Buffer
	command := exec.Command("node", "node/node_modules/@stoplight/prism-cli/dist/index.js", "proxy", document, s.url, "--errors", "--host", host, "--port", port)
	command.Stdout, command.Stderr = &log, &log
	require.NoError(s.t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	s.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // the process may already have exited
		<-ended
	})
	proxied := *s
	proxied.url = "http://" + net.JoinHostPort(host, port)
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(time.Second / 10) {
		select {
		case err := <-ended:
			ended <- err // the clean-up receives from ended too
			require.FailNow(s.t, "Prism has exited", "%v\n%s", err, &log)
		default:
		}
		if response, err := http.Get(proxied.url + "/healthz"); err == nil {
			require.NoError(s.t, response.Body.Close())
			require.Equal(s.t, http.StatusOK, response.StatusCode)
			return &proxied
		}
	}
	require.FailNow(s.t, "Prism does not answer")
	return nil
}

// With a stricter contract, the proxy rejects requests and responses that it accepted before. This
// proves that Prism understands the schemas. Otherwise, it would silently check nothing.
func TestProxyRefuses(t *testing.T) {
	wantNode(t)
	s := start(t)
	const prefix = "/v1/ledgers/default"
	for _, body := range []string{ipc, another} {
		s.do(http.MethodPost, prefix+"/ipc-records", []byte(body), http.StatusCreated)
	}
	document := contract
	for _, required := range []string{"as_of, hashes", "variable, a, b", "audit_mode, verifier_method, n_quotes, n_verified, sources"} {
		document = edited(t, document, "required: ["+required+"]", "required: ["+required+", more]")
	}
	proxied := behind(s, document)
	proxied.do(http.MethodGet, prefix+"/records/1/receipt", nil, http.StatusOK)
	for _, r := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{http.MethodGet, "/proofs/inclusion", "", http.StatusUnprocessableEntity, "seq"},
		{http.MethodGet, "/proofs/inclusion?seq=1", "", http.StatusInternalServerError, "more"},
		{http.MethodGet, "/drift/attribution?a=1&b=2", "", http.StatusInternalServerError, "more"},
		{http.MethodPost, "/run-dags", inputs, http.StatusUnprocessableEntity, "more"},
	} {
		require.Contains(t, string(proxied.do(r.method, prefix+r.path, []byte(r.body), r.status)), r.says)
	}
}

// Every kind of request in the life of a ledger passes through a proxy that permits only what the
// contract describes. This includes imports with the import command and a request for every route.
func TestContractHolds(t *testing.T) {
	wantNode(t)
	s := start(t)
	proxied := behind(s, withoutLines(t))
	proxied.importAll()
	asked := make(map[string]bool)
	for _, r := range slices.Concat(writes, reads, writesAtLast) {
		asked[r.route] = true
		to := proxied
		if r.past != "" {
			to = s
		}
		path := strings.NewReplacer("~", "/v1/ledgers/c", "EVENT", s.event()).Replace(r.path)
		method, _, _ := strings.Cut(r.route, " ")
		contentType := "application/json"
		if strings.HasSuffix(path, "/batch") {
			contentType = "application/x-ndjson"
		}
		require.NotEmpty(t, to.do(method, path, []byte(r.body), r.status, "Content-Type", contentType), r.route)
	}
	for _, route := range routes(t) {
		require.True(t, asked[route], "no request uses the route %s", route)
	}
}

// event returns the hash of the default ledger's first event.
func (s *server) event() string {
	s.t.Helper()
	var event struct {
		Hash string `json:"event_hash"`
	}
	require.NoError(s.t, json.Unmarshal(s.do(http.MethodGet, "/v1/ledgers/default/records/0", nil, http.StatusOK), &event))
	return event.Hash
}

// importAll imports the real input and then someLines. It skips the real input if the files are
// missing, because they are not part of the repository.
func (s *server) importAll() {
	s.t.Helper()
	files, err := filepath.Glob("../../../shared/data/*.ndjson.gz")
	require.NoError(s.t, err)
	for _, file := range files {
		s.importLines(unzipped(s.t, file))
	}
	s.importLines([]byte(someLines))
}

// importLines imports lines with the import command. It splits them into several imports because
// Prism accepts at most 10 MB per request.
func (s *server) importLines(lines []byte) {
	s.t.Helper()
	for piece := range slices.Chunk(slices.Collect(bytes.Lines(lines)), 1000) {
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		command := exec.CommandContext(ctx, tools.colophon, "import", "--server", s.url, "--retries", "1", "-")
		command.Env = append(os.Environ(), "COLOPHON_TOKEN="+s.token)
		command.Stdin = bytes.NewReader(bytes.Join(piece, nil))
		out, err := command.CombinedOutput()
		cancel()
		require.NoError(s.t, err, "%s", out)
	}
}

func unzipped(t testing.TB, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	z, err := gzip.NewReader(file)
	require.NoError(t, err)
	lines, err := io.ReadAll(z)
	require.NoError(t, err)
	return lines
}

// routes returns the routes of the contract, such as "GET /v1/ledgers/{ledger}".
func routes(t testing.TB) (list []string) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]yaml.Node `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(readContract(t), &document))
	for path, item := range document.Paths {
		for method := range item {
			if method != "parameters" {
				list = append(list, strings.ToUpper(method)+" "+path)
			}
		}
	}
	require.NotEmpty(t, list)
	slices.Sort(list)
	return list
}

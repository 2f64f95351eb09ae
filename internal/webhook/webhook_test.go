package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/internal/webhook"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/storage/memory"
)

const secret = "a secret of at least 24 bytes"

// receiver collects messages. While refuse is positive, it rejects each message and decrements
// refuse.
type receiver struct {
	mu       sync.Mutex
	messages []webhook.Message
	ids      []string
	refuse   int
	tries    int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	id, timestamp := q.Header.Get("webhook-id"), q.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	var m webhook.Message
	switch {
	case q.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)):
		w.WriteHeader(http.StatusUnauthorized)
	case r.refuse > 0:
		r.refuse--
		w.WriteHeader(http.StatusServiceUnavailable)
	case json.Unmarshal(body, &m) != nil:
		w.WriteHeader(http.StatusBadRequest)
	default:
		r.messages, r.ids = append(r.messages, m), append(r.ids, id)
	}
}

func (r *receiver) types() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.messages {
		list = append(list, strings.TrimPrefix(m.Type, "colophon."))
	}
	return list
}

// testServer is a server with a ledger whose events trigger webhooks.
type testServer struct {
	t     *testing.T
	host  *ledger.Host
	index *index.Store
	url   string
	dir   string
}

func newTestServer(t *testing.T) *testServer {
	host, err := ledger.OpenHost(t.Context(), memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	_, err = host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	store, err := query.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: host, Index: store, SpoolDir: t.TempDir(), Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(service)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, store.Close())
		require.NoError(t, host.Close())
	})
	return &testServer{t: t, host: host, index: store, url: server.URL + "/v1/ledgers/default", dir: t.TempDir()}
}

// send starts a Sender. hooks is its configuration in YAML. The caller must close the Sender.
func (w *testServer) send(hooks string) *webhook.Sender {
	w.t.Helper()
	dir := w.t.TempDir()
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "secret"), []byte(secret+"\n"), 0o600))
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "hooks.yaml"), []byte(hooks), 0o600))
	list, err := webhook.LoadHooks(filepath.Join(dir, "hooks.yaml"))
	require.NoError(w.t, err)
	s, err := webhook.New(webhook.Options{Hooks: list, CursorDir: filepath.Join(w.dir, "cursors"), Logger: slog.New(slog.DiscardHandler), Follower: w.index.Follower, InitialRetryPause: time.Millisecond})
	require.NoError(w.t, err)
	require.NoError(w.t, w.host.OnOpen(s.Follow))
	return s
}

func (w *testServer) post(method, path, body string) {
	w.t.Helper()
	q, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	q.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(q)
	require.NoError(w.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, answer.Body.Close())
	require.Equal(w.t, 2, answer.StatusCode/100, "%s", text)
}

func run(id, model, output, more string) string {
	return fmt.Sprintf(`{"run_id":%q,"payload":{"q":"Who?"},"output":%q,"model":%q,"temperature":0,"max_tokens":9,"seed":1%s}`, id, output, model, more)
}

// events sends requests that trigger one message of each type except trouble.
func (w *testServer) events() {
	const hash = `"0000000000000000000000000000000000000000000000000000000000000000"`
	w.post("POST", "/ipc-records", run("a", "m1", "Ana.", ""))
	w.post("POST", "/ipc-records", run("b", "m2", "Ana Varga.", ""))
	w.post("POST", "/ipc-records", run("c", "m2", "Ana Varga.", `,"output_hash":`+hash))
	w.post("POST", "/ipc-records", run("d", "m2", "Ana Varga.", `,"producer":{"id":"web","seq":1}`))
	w.post("POST", "/ipc-records", run("e", "m2", "Ana Varga.", `,"producer":{"id":"web","seq":4}`))
	w.post("POST", "/citation-sets", `{"run_id":"a","subject":"s","citations":[{"source_id":"x","text":"Ana keeps it.","weight":1}]}`)
	w.post("PUT", "/sources/x", `{"chunk_hashes":["sha256:`+strings.Trim(hash, `"`)+`"]}`)
}

func TestMessages(t *testing.T) {
	w, r := newTestServer(t), &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	s := w.send("- {name: all, url: " + server.URL + ", secret-file: secret}")
	defer s.Close()
	w.events()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, []string{"drift", "mismatch", "gap", "stale_citation"}, r.types())
	}, 30*time.Second, 10*time.Millisecond)

	drift, gap, stale := r.messages[0].Data, r.messages[2].Data, r.messages[3].Data
	require.Equal(t, uint64(2), drift.Seq)
	require.Equal(t, uint64(1), drift.ComparedSeq)
	require.Equal(t, "b", drift.RunID)
	require.Equal(t, []string{"model"}, drift.Variables)
	require.Contains(t, drift.Text, "differs from the output of event 1")
	require.Equal(t, []uint64{2, 3}, gap.MissingRange)
	require.Equal(t, "web", gap.Producer)
	require.Equal(t, []uint64{6}, stale.StaleSets)
	require.Equal(t, []string{"output_hash"}, r.messages[1].Data.FailedChecks)
}

// A message is resent until it is accepted, including after a restart, always with the same ID.
// Once the cursor has passed an event, its messages are not sent again.
func TestRetriesAndRestarts(t *testing.T) {
	w, r := newTestServer(t), &receiver{refuse: 5}
	server := httptest.NewServer(r)
	defer server.Close()
	hooks := "- {name: all, url: " + server.URL + ", secret-file: secret, from-start: true, events: [drift, mismatch]}"
	w.events()
	s := w.send(hooks)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, r.types(), 2) }, 30*time.Second, 10*time.Millisecond)
	s.Close()
	require.Equal(t, []string{"drift", "mismatch"}, r.types())
	require.Equal(t, 7, r.tries)

	// Simulate a process that stops after the receiver has accepted the messages but before the
	// cursor is stored.
	first := r.ids
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "cursors", "all@default.json"), []byte(`{"next":0}`), 0o600))
	s = w.send(hooks)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, r.types(), 4) }, 30*time.Second, 10*time.Millisecond)
	s.Close()
	require.Equal(t, append(first, first...), r.ids)

	s = w.send(hooks)
	w.post("POST", "/ipc-records", run("f", "m3", "Nobody.", ""))
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, r.types(), 5) }, 30*time.Second, 10*time.Millisecond)
	s.Close()
	require.Equal(t, uint64(8), r.messages[4].Data.Seq)
}

// A ledger is served even if the cursor of a hook cannot be stored. The hook begins once it can be.
func TestCursorThatCannotBeStored(t *testing.T) {
	w, r := newTestServer(t), &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	cursors := filepath.Join(w.dir, "cursors")
	require.NoError(t, os.Mkdir(cursors, 0o700))
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(cursors, "all@default.json")))
	s := w.send("- {name: all, url: " + server.URL + ", secret-file: secret, events: [mismatch]}")
	defer s.Close()
	w.events()
	time.Sleep(50 * time.Millisecond)
	require.Empty(t, r.types())
	require.NoError(t, os.Remove(filepath.Join(cursors, "all@default.json")))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		w.post("POST", "/ipc-records", run("x", "m2", "Ana Varga.", ""))
		assert.Equal(c, []string{"mismatch"}, r.types())
	}, 30*time.Second, 100*time.Millisecond)
}

func TestFiltersAndMetrics(t *testing.T) {
	w, r := newTestServer(t), &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	s := w.send("- {name: none, url: " + server.URL + ", secret-file: secret, ledgers: [other]}\n" +
		"- {name: causes, url: " + server.URL + ", secret-file: secret, causes: [unseeded], events: [drift, gap]}")
	defer s.Close()
	w.events()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, []string{"gap"}, r.types())
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(s))
		assert.NoError(c, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP colophon_webhook_lag_events Events of the ledger that the hook has not processed yet.
# TYPE colophon_webhook_lag_events gauge
colophon_webhook_lag_events{hook="causes",ledger="default"} 0
`), "colophon_webhook_lag_events"))
	}, 30*time.Second, 10*time.Millisecond)
}

func TestBadConfigurations(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short"), []byte("short"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), []byte("whsec_!"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "open"), []byte(secret), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "open"), 0o644))
	for text, want := range map[string]string{
		"- {name: A, url: http://x, secret-file: secret}":                                                              "name: must begin with",
		"- {name: a, url: ftp://x, secret-file: secret}":                                                               "url: must be the http or https URL",
		"- {name: a, url: 'http://u:p@x', secret-file: secret}":                                                        "not contain a user name or password",
		"- {name: a, url: http://x}":                                                                                   "secret-file: must name a file",
		"- {name: a, url: http://x, secret-file: none}":                                                                "no such file",
		"- {name: a, url: http://x, secret-file: short}":                                                               "must have at least 24",
		"- {name: a, url: http://x, secret-file: open}":                                                                "anyone can read or write",
		"- {name: a, url: http://x, secret-file: bad}":                                                                 "base64",
		"- {name: a, url: http://x, secret-file: secret, events: [news]}":                                              `"news" is not a message type`,
		"- {name: a, url: http://x, secret-file: secret, color: red}":                                                  "color",
		"- {name: a, url: http://x, secret-file: secret}\n- {name: a, url: http://y, secret-file: secret, events: []}": "two hooks",
		"{": "hooks.yaml",
	} {
		path := filepath.Join(dir, "hooks.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := webhook.LoadHooks(path)
		require.ErrorContains(t, err, want, text)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hooks.yaml"), nil, 0o600))
	hooks, err := webhook.LoadHooks(filepath.Join(dir, "hooks.yaml"))
	require.NoError(t, err)
	require.Empty(t, hooks)
}

// Kubernetes mounts each file of a secret as a link, and lets the group read it.
func TestConfigurationFromKubernetes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..data"), 0o755))
	for name, text := range map[string]string{"secret": secret, "hooks.yaml": "- {name: a, url: http://x, secret-file: secret}"} {
		file := filepath.Join(dir, "..data", name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, os.Chmod(file, 0o440))
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	hooks, err := webhook.LoadHooks(filepath.Join(dir, "hooks.yaml"))
	require.NoError(t, err)
	require.Len(t, hooks, 1)
}

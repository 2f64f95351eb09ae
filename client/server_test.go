package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/client"
	"colophon/client/wire"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/storage/memory"
)

// testServer is a real server with one in-memory ledger, named default.
type testServer struct {
	*httptest.Server
	host *ledger.Host
}

// start starts a server that stores its keys and its index in dir. The returned function stops the server.
func start(dir string, change ...func(*api.Config)) (*testServer, func(), error) {
	ctx := context.Background()
	host, err := ledger.OpenHost(ctx, memory.New(), keystore.KeyFiles{Dir: dir}, func(string) ledger.Config { return ledger.Config{} })
	if err != nil {
		return nil, nil, err
	}
	if _, err := host.Create(ctx, ledger.CreateOptions{Name: ledger.DefaultName, Origin: "ledger.example/default"}); err != nil {
		return nil, nil, err
	}
	folded, err := query.OpenIndex(index.Config{Dir: dir + "/index", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	config := api.Config{Host: host, Index: folded, Version: "test",
		Snapshot: func(context.Context) (string, int, error) { return "copy-1", 2, nil }}
	for _, f := range change {
		f(&config)
	}
	service, err := api.New(config)
	if err != nil {
		return nil, nil, err
	}
	server := httptest.NewUnstartedServer(service)
	server.Config, server.Listener = service.HTTPServer(), service.LimitListener(server.Listener)
	server.Start()
	return &testServer{server, host}, func() {
		server.CloseClientConnections()
		server.Close()
		_ = folded.Close()
		_ = host.Close()
	}, nil
}

func serve(t testing.TB, change ...func(*api.Config)) *testServer {
	t.Helper()
	s, stop, err := start(t.TempDir(), change...)
	require.NoError(t, err)
	t.Cleanup(stop)
	return s
}

func (s *testServer) key() string {
	l, err := s.host.Ledger(ledger.DefaultName)
	if err != nil {
		panic(err)
	}
	return l.VerifierKey()
}

// connect returns a client that does not sleep between attempts.
func connect(t testing.TB, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, options...)
	require.NoError(t, err)
	client.OnSleep(c, noSleep)
	return c
}

func noSleep(time.Duration) {}

func generation(output string) *wire.IPCRecord {
	return &wire.IPCRecord{
		Payload: json.RawMessage(`{"q":"Who?","seed":7}`), SystemPrompt: new("Be brief."), Output: new(output),
		Model: "m1", Temperature: new(0.5), MaxTokens: wire.IntNumber(9),
	}
}

// recorder is a transport that keeps the body and the header of the last response.
type recorder struct {
	body   []byte
	header http.Header
	query  map[string]bool // names of all query parameters sent since the test last cleared the map
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	for name := range q.URL.Query() {
		r.query[name] = true
	}
	response, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	r.body, err = io.ReadAll(response.Body)
	r.header = response.Header
	response.Body = io.NopCloser(bytes.NewReader(r.body))
	return response, err
}

// lossless checks that decoding raw into value lost no JSON members. Encoding value must yield JSON
// that is equal to raw.
func lossless(t testing.TB, raw []byte, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	require.JSONEq(t, string(raw), string(text))
}

// collected holds the values that handlers have received, in the order of arrival.
type collected[T any] struct {
	mu   sync.Mutex
	list []T
}

func (c *collected[T]) add(value T) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, value)
	return len(c.list)
}

func (c *collected[T]) all() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

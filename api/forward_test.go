package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/storage"
)

// startForwarding starts a server that forwards writes to the URL that holder returns.
func startForwarding(t *testing.T, holder func(string) (string, bool)) *service {
	return start(t, func(c *Config) { c.WriterURL, c.ServerLimits.MaxWait = holder, 100*time.Millisecond })
}

// holderOf starts another server with the given handler, and returns a Config.WriterURL that names
// this server as the writer of every ledger.
func holderOf(t *testing.T, answer http.HandlerFunc) func(string) (string, bool) {
	other := httptest.NewServer(answer)
	t.Cleanup(other.Close)
	return func(string) (string, bool) { return other.URL, true }
}

// A forwarded request and its response pass through unchanged.
func TestForward(t *testing.T) {
	var seen *http.Request
	var body []byte
	s := startForwarding(t, holderOf(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x")
		w.Header().Set("Location", "/somewhere")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "as it is")
	}))
	large := strings.Repeat("x", 1<<20)
	a := s.do(http.MethodPost, "/ipc-records?on_mismatch=reject", large, "Authorization", "Bearer token", "Idempotency-Key", "k", "Content-Type", "application/json",
		"X-Forwarded-For", "192.0.2.7").want(http.StatusTeapot)
	require.Equal(t, "as it is", string(a.body))
	require.Equal(t, "application/x", a.header.Get("Content-Type"))
	require.Equal(t, "/somewhere", a.header.Get("Location"))
	require.Equal(t, "/v1/ledgers/default/ipc-records?on_mismatch=reject", seen.URL.String())
	require.Equal(t, large, string(body))
	require.Equal(t, "Bearer token", seen.Header.Get("Authorization"))
	require.Equal(t, "k", seen.Header.Get("Idempotency-Key"))
	require.Equal(t, "127.0.0.1", seen.Header.Get("X-Forwarded-For"), "the header that the client sent is ignored")
	require.NotEmpty(t, seen.Header.Get(forwardedHeader))

	// Reads and queries are not forwarded.
	seen = nil
	s.get(s.url).want(http.StatusOK)
	s.get("/log/checkpoint").want(http.StatusOK)
	s.get("/ipc-records/drift").problem(http.StatusNotFound)
	s.post("/drift/reproduce", `{}`).problem(http.StatusUnprocessableEntity)
	require.Nil(t, seen)
	for _, path := range []string{"/records/0/state", "/state-changes", "/freeze", "/keys", "/redactions"} {
		s.post(path, `{}`).want(http.StatusTeapot)
	}
	s.do(http.MethodDelete, "/records/1/content", "").want(http.StatusTeapot)
	s.do(http.MethodPut, "/visibility", `{}`).want(http.StatusTeapot)
	require.EqualValues(t, 1, s.size())
}

// A write waits while no server writes the ledger, or while the server that writes it cannot be
// reached.
func TestForwardWaits(t *testing.T) {
	var seen []string
	writerURL := holderOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, r.Header.Get(forwardedHeader)+" "+string(body))
	})
	dead := deadURL()
	var asked atomic.Int64
	holder := func(name string) (string, bool) {
		switch asked.Add(1) % 6 {
		case 1, 2:
			return "", true
		case 3, 4:
			return dead, true
		}
		return writerURL(name)
	}
	s := start(t, func(c *Config) { c.WriterURL, c.ServerLimits.MaxWait = holder, time.Hour })
	s.post("/ipc-records", "{}").want(http.StatusOK)
	asked.Store(0)
	s.do(http.MethodPost, "/ipc-records", "{}", forwardedHeader, "1").want(http.StatusOK)
	asked.Store(0)
	s.batch("{}\n").want(http.StatusOK)
	require.Equal(t, []string{"1 {}", "2 {}", "1 {}\n"}, seen)
}

// deadURL returns a URL at which no server listens.
func deadURL() string { return "http://127.0.0.1:1" }

// A write gets 503, and nothing is written, if servers forward it in a loop, if no server writes
// the ledger, or if the server that writes it cannot be reached.
func TestForwardRefuses(t *testing.T) {
	var first, second *service
	first = startForwarding(t, func(string) (string, bool) { return second.http.URL, true })
	second = startForwarding(t, func(string) (string, bool) { return first.http.URL, true })
	none := startForwarding(t, func(string) (string, bool) { return "", true })
	dead := deadURL()
	gone := startForwarding(t, func(string) (string, bool) { return dead, true })
	for name, s := range map[string]*service{"circle": first, "no holder": none, "dead holder": gone} {
		a := s.post("/ipc-records", ipcBody("", "o"))
		p := a.problem(http.StatusServiceUnavailable)
		require.Contains(t, p.Detail, "nothing was written", name)
		require.Equal(t, "1", a.header.Get("Retry-After"), name)
		require.EqualValues(t, 1, s.size())
	}
}

// A read that needs the ledger's writer gets 503 and is counted, just like a write, if no server
// writes the ledger or if its writer does not answer.
func TestForwardedReadsWithoutAnswer(t *testing.T) {
	dead := deadURL()
	for outcome, c := range map[string]struct{ writerURL, detail string }{
		"broken":    {dead, "the server that writes the ledger is not responding"},
		"no_holder": {"", "no server writes the ledger at this moment"},
	} {
		s := startForwarding(t, func(string) (string, bool) { return c.writerURL, true })
		server := s.http.Config.Handler.(*Server)
		read := server.forward.wrap(route{method: http.MethodGet}, func(*call.Call) error { return fmt.Errorf("signing: %w", storage.ErrLeaseNotHeld) })
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		p, _ := problem.FromError(read(server.shared.NewCall(echo.New().NewContext(r, w), w, r)))
		require.Equal(t, http.StatusServiceUnavailable, p.Status)
		require.Contains(t, p.Detail, c.detail)
		count, _ := s.metrics().value("colophon_forwarded_requests_total", "outcome", outcome)
		require.EqualValues(t, 1, count, outcome)
	}
}

// If the ledger's writer hangs in the middle of a forwarded request and then loses the ledger, the
// client gets a 503 that says that the outcome is unknown.
func TestForwardToASilentServer(t *testing.T) {
	silent := make(chan struct{})
	var moved atomic.Bool
	writerURL := holderOf(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		moved.Store(true)
		<-silent
	})
	defer close(silent)
	s := startForwarding(t, func(name string) (string, bool) {
		if moved.Load() {
			return "", true
		}
		return writerURL(name)
	})
	p := s.post("/ipc-records", ipcBody("", "o")).problem(http.StatusServiceUnavailable)
	require.Contains(t, p.Detail, "it is unknown whether anything was written")
}

// If the ledger's writer stops before it answers a forwarded batch, the client gets 503, even if
// the client keeps the body open while it waits for results.
func TestForwardOfABatchToAServerThatDies(t *testing.T) {
	var moved atomic.Bool
	writerURL := holderOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := bufio.NewReader(r.Body).ReadString('\n')
		assert.NoError(t, err)
		conn, _, err := http.NewResponseController(w).Hijack()
		assert.NoError(t, err)
		moved.Store(true)
		assert.NoError(t, conn.Close())
	})
	s := startForwarding(t, func(name string) (string, bool) {
		if moved.Load() {
			return "", true
		}
		return writerURL(name)
	})
	body, line := io.Pipe()
	defer line.Close()
	go func() { _, _ = io.WriteString(line, strings.ReplaceAll(ipcBody("", "o"), "\n", " ")+"\n") }()
	response, err := s.http.Client().Post(s.url+"/batch", "application/x-ndjson", body)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
}

// If the ledger's writer responds before it has read the body, the client gets the response unless
// the connection breaks first.
func TestForwardOfARefusedBody(t *testing.T) {
	s := startForwarding(t, holderOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		fmt.Fprint(w, "too large")
	}))
	for _, size := range []int{1 << 10, 1 << 18, 1 << 20} {
		a := s.post("/ipc-records", strings.Repeat("x", size))
		if a.status != http.StatusServiceUnavailable { // the connection broke before the answer was read
			a.want(http.StatusRequestEntityTooLarge)
			require.Equal(t, "too large", string(a.body))
		}
	}
	s.get(s.url).want(http.StatusOK)
}

// If a client disconnects in the middle of a forwarded body, the server that receives the body gets
// a read error.
func TestForwardOfABrokenBody(t *testing.T) {
	read := make(chan error, 1)
	s := startForwarding(t, holderOf(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
	}))
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST /v1/ledgers/default/ipc-records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	select {
	case err := <-read:
		require.Error(t, err, "the other server must not mistake the partial body for a whole one")
	case <-time.After(time.Minute):
		t.Fatal("the other server still waits for the rest of the body")
	}
}

// A forwarded batch streams in both directions at once, and its connection serves further requests.
func TestForwardOfABatch(t *testing.T) {
	s := startForwarding(t, holderOf(t, func(w http.ResponseWriter, r *http.Request) {
		controller := http.NewResponseController(w)
		_ = controller.EnableFullDuplex()
		w.Header().Set("Content-Type", call.NDJSONMediaType)
		w.WriteHeader(http.StatusOK)
		_ = controller.Flush()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			fmt.Fprintf(w, "answer to %s\n", lines.Text())
			_ = controller.Flush()
		}
	}))
	for round := range 3 {
		body, feed := io.Pipe()
		r, err := http.NewRequest(http.MethodPost, s.url+"/batch", body)
		require.NoError(t, err)
		r.Header.Set("Content-Type", call.NDJSONMediaType)
		answered, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answered.StatusCode)
		lines := bufio.NewReader(answered.Body)
		for i := range 5 {
			text := strconv.Itoa(100*round + i)
			_, err := io.WriteString(feed, text+"\n")
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "answer to "+text+"\n", line)
		}
		require.NoError(t, feed.Close())
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.NoError(t, answered.Body.Close())
	}
	// Here, the ledger's writer responds without reading the batch.
	early := startForwarding(t, holderOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "not now")
	}))
	for range 3 {
		a := early.do(http.MethodPost, "/batch", string(bytes.Repeat([]byte("line\n"), 1<<10)), "Content-Type", call.NDJSONMediaType)
		a.want(http.StatusServiceUnavailable)
		require.Equal(t, "not now", string(a.body))
		early.get(early.url).want(http.StatusOK)
	}
}

package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/problem"
	"colophon/storage"
)

// A read-only server refuses every request that changes something, before it reads the body. It
// answers all other requests.
func TestReadOnly(t *testing.T) {
	var following error
	s := start(t, func(c *Config) {
		c.ReadOnly = true
		c.WriterURL = func(ledger string) (string, bool) {
			return map[string]string{"default": "https://writer"}[ledger], true
		}
		c.StalenessError = func() error { return following }
	})
	// These routes do not use GET, but they change nothing.
	reads := map[string]bool{
		"POST /v1/compute/:kind": true, "POST /v1/compute/cache-key": true, "POST /v1/compute/question-hash": true,
		"POST " + ofLedger + "/drift/reproduce": true, "POST " + ofLedger + "/run-dags/lookup": true, "POST " + ofLedger + "/citation-sets/:seq/pinned-retrieval": true,
	}
	send := func(method, path string) (int, string) {
		a := s.do(method, s.http.URL+path, "{}")
		return a.status, string(a.body)
	}
	for _, r := range s.http.Config.Handler.(*Server).routes() {
		path := strings.NewReplacer(":ledger", "default", ":seq", "0", ":kind", "ipc-record", ":hash", strings.Repeat("0", 64)).Replace(r.path)
		status, text := send(r.method, path)
		if r.method != http.MethodGet && !reads[r.method+" "+r.path] {
			require.Equal(t, http.StatusForbidden, status, "%s: %s", r.path, text)
			require.Contains(t, text, "this server is read-only; nothing was written", r.path)
			if strings.HasPrefix(r.path, ofLedger) {
				require.Contains(t, text, "send writes to https://writer", r.path)
			}
			continue
		}
		require.NotEqual(t, http.StatusForbidden, status, r.path)
		require.NotContains(t, text, "this server is read-only", r.path)
	}
	require.Equal(t, uint64(1), s.ledger().Head().Size)

	status, _ := send("GET", "/readyz")
	require.Equal(t, http.StatusOK, status)
	following = errors.New("the copy is being loaded")
	status, text := send("GET", "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "the copy is being loaded")
	status, _ = send("GET", "/v1/ledgers/default")
	require.Equal(t, http.StatusOK, status)
	status, text = send("GET", "/v1/ledgers/other")
	require.Equal(t, http.StatusServiceUnavailable, status, text)
	require.Contains(t, text, "might not have received the ledger yet")
	following = nil
	status, _ = send("GET", "/v1/ledgers/other")
	require.Equal(t, http.StatusNotFound, status)
}

// storage.ErrLogOnly is reported as a 404 that says that the copy has only the log, and not as an
// internal error.
func TestLogOnly(t *testing.T) {
	p, internal := problem.FromError(storage.ErrLogOnly)
	require.False(t, internal)
	require.Equal(t, http.StatusNotFound, p.Status)
	require.Contains(t, p.Detail, "only the log")
}

package api

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/api/limits"
	"colophon/internal/testing/locked"
)

// A batch can end before its body does. Here, the body is not valid gzip and is longer than the
// server drains. If the rest of the body were read concurrently with the next request on the
// connection, net/http would panic. The server's own listener closes the connection, so that these
// reads rarely overlap. The test therefore also uses httptest's listener.
func TestBatchThatEndsBeforeItsBody(t *testing.T) {
	for name, listen := range map[string]bool{"httptest's listener": false, "the server's listener": true} {
		t.Run(name, func(t *testing.T) {
			logged := new(locked.Buffer)
			s := start(t, func(c *Config) {
				c.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			server := s.http
			if !listen {
				server = httptest.NewUnstartedServer(nil)
				server.Config = s.server().HTTPServer()
				server.Start()
			}
			body := strings.Repeat("x", limits.MaxDrainBytes+64<<10)
			for range 20 {
				request, err := http.NewRequest(http.MethodPost, server.URL+"/v1/ledgers/default/batch", strings.NewReader(body))
				require.NoError(t, err)
				request.Header.Set("Content-Type", call.NDJSONMediaType)
				request.Header.Set("Content-Encoding", "gzip")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					continue // the connection was reset before the response was read
				}
				text, err := io.ReadAll(response.Body)
				require.NoError(t, response.Body.Close())
				if err == nil {
					require.Contains(t, string(text), `"status":400`)
				}
			}
			server.Close()
			require.NotContains(t, logged.String(), "panic")
		})
	}
}

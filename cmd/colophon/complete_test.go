package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Shell completion gives up if the server does not respond.
func TestCompletionWhileTheServerHangs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	for _, line := range []string{"drift groups --ledger", "ledger freeze", "drift producers", "drift show model"} {
		var out, stderr bytes.Buffer
		done := make(chan int)
		go func() {
			args := append(append([]string{"__complete"}, strings.Fields(line)...), "")
			env := func(name string) (string, bool) { return server.URL, name == "COLOPHON_SERVER" }
			done <- run(t.Context(), args, strings.NewReader(""), &out, &stderr, env)
		}()
		select {
		case code := <-done:
			require.Zero(t, code, stderr.String())
			require.Equal(t, ":4\n", out.String(), line)
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the completion still waits for the server", line)
		}
	}
}

package fetch

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The client sends the token only to the server of the ledger.
func TestTokenGoesOnlyToItsServer(t *testing.T) {
	var token string
	own := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { token = r.Header.Get("Authorization") }))
	defer own.Close()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { token = r.Header.Get("Authorization") }))
	defer other.Close()
	c, err := New(Server{URL: own.URL, Token: "secret"}, "default", time.Minute, 1)
	require.NoError(t, err)
	for url, want := range map[string]string{own.URL: "Bearer secret", other.URL: ""} {
		token = "none yet"
		answer, err := c.GetURL(t.Context(), url+"/metrics", MaxNoteBytes)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.Status)
		require.Equal(t, want, token)
	}
}

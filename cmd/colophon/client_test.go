package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// consoleWith is a console with those environment variables, and what it says.
func consoleWith(environment map[string]string) (*console, *bytes.Buffer) {
	said := new(bytes.Buffer)
	return &console{err: said, env: func(name string) (string, bool) {
		value, set := environment[name]
		return value, set
	}}, said
}

// A server is believed by the authorities of --ca-file alone, and gets the token.
func TestClientOverTLS(t *testing.T) {
	var got []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails below
	server.StartTLS()
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	c, said := consoleWith(map[string]string{"COLOPHON_TOKEN": "secret"})

	trusting, err := newClient(c, serverOptions{url: server.URL, caFile: authority})
	require.NoError(t, err)
	_, err = trusting.call(t.Context(), http.MethodGet, "/", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"Bearer secret"}, got)

	doubting, err := newClient(c, serverOptions{url: server.URL})
	require.NoError(t, err)
	_, err = doubting.call(t.Context(), http.MethodGet, "/", nil)
	require.ErrorContains(t, err, "certificate")
	require.Len(t, got, 1)
	require.Empty(t, said)
}

func TestClientSaysThatTheServerSpeaksTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails
	server.StartTLS()
	defer server.Close()
	c, _ := consoleWith(nil)
	client, err := newClient(c, serverOptions{url: "http://" + server.Listener.Addr().String()})
	require.NoError(t, err)
	_, err = client.call(t.Context(), http.MethodGet, "/v1/ledgers", nil)
	require.ErrorContains(t, err, "400 the server speaks TLS: use --server "+server.URL+" (and --ca-file")
}

// Whoever the server leads to does not get the token.
func TestClientFollowsNobody(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL+"/v1/ledgers", http.StatusTemporaryRedirect))
	defer server.Close()
	c, _ := consoleWith(map[string]string{"COLOPHON_TOKEN": "secret"})
	client, err := newClient(c, serverOptions{url: server.URL})
	require.NoError(t, err)
	_, err = client.call(t.Context(), http.MethodGet, "/v1/ledgers", nil)
	require.ErrorContains(t, err, "leads to "+thief.URL)
}

func TestClientWarnsWhereOthersCanListen(t *testing.T) {
	for url, warned := range map[string]bool{
		"http://ledger.example.org": true, "http://192.0.2.1:8080": true,
		"https://ledger.example.org": false, "http://127.0.0.1:8080": false, "http://[::1]:8080": false, "http://localhost": false,
	} {
		for _, token := range []string{"secret", ""} {
			c, said := consoleWith(map[string]string{"COLOPHON_TOKEN": token})
			_, err := newClient(c, serverOptions{url: url})
			require.NoError(t, err)
			require.Equal(t, warned && token != "", said.Len() > 0, url)
			require.NotContains(t, said.String(), "secret")
		}
	}
}

// The token is for the server alone, whomever else its client asks.
func TestTokenStaysAtHome(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("it got the token")
		}
	}))
	defer thief.Close()
	c, _ := consoleWith(map[string]string{"COLOPHON_TOKEN": "secret"})
	client, err := newClient(c, serverOptions{url: "http://localhost:1"})
	require.NoError(t, err)
	answer, err := newFetcher(client, "", time.Minute, 1).getFrom(t.Context(), thief.URL+"/metrics", maxNote)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.status)
}

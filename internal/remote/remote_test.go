package remote_test

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

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/remote"
)

// consoleWith returns a console with the given environment variables, and the buffer to which the
// console writes errors.
func consoleWith(environment map[string]string) (*cli.Console, *bytes.Buffer) {
	said := new(bytes.Buffer)
	return &cli.Console{Err: said, LookupEnv: func(name string) (string, bool) {
		value, set := environment[name]
		return value, set
	}}, said
}

// ask requests the list of ledgers from the server, and returns the error that a command would
// show.
func ask(t *testing.T, s *remote.Connection) error {
	t.Helper()
	_, err := s.Do(t.Context(), client.Request{Path: "/v1/ledgers"})
	return s.ExplainFatal(err)
}

// The client trusts only the authorities of --ca-file, and sends the token.
func TestServerOverTLS(t *testing.T) {
	var got []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake below fails on purpose
	server.StartTLS()
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	c, said := consoleWith(map[string]string{"COLOPHON_TOKEN": "secret"})

	trusting, err := remote.Options{URL: server.URL, CAFile: authority}.Connect(c)
	require.NoError(t, err)
	err = ask(t, trusting)
	require.NoError(t, err)
	require.Equal(t, []string{"Bearer secret"}, got)

	doubting, err := remote.Options{URL: server.URL}.Connect(c)
	require.NoError(t, err)
	err = ask(t, doubting)
	require.ErrorContains(t, err, "certificate")
	require.Len(t, got, 1)
	require.Empty(t, said)
}

func TestAdviceIfTheServerSpeaksTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake below fails on purpose
	server.StartTLS()
	defer server.Close()
	c, _ := consoleWith(nil)
	asked, err := remote.Options{URL: "http://" + server.Listener.Addr().String()}.Connect(c)
	require.NoError(t, err)
	err = ask(t, asked)
	require.ErrorContains(t, err, " responded with status 400; the server speaks TLS: use "+server.URL+" (and --ca-file")
}

func TestRedirectsDoNotGetTheToken(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server received a request") }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL+"/v1/ledgers", http.StatusTemporaryRedirect))
	defer server.Close()
	c, _ := consoleWith(map[string]string{"COLOPHON_TOKEN": "secret"})
	asked, err := remote.Options{URL: server.URL}.Connect(c)
	require.NoError(t, err)
	err = ask(t, asked)
	require.ErrorContains(t, err, "307 the server redirects to \""+thief.URL+"/v1/ledgers\"")
	require.ErrorContains(t, err, "use its URL with --server")
}

func TestWarningWhereOthersCanListen(t *testing.T) {
	for url, warned := range map[string]bool{
		"http://ledger.example.org": true, "http://192.0.2.1:8080": true,
		"https://ledger.example.org": false, "http://127.0.0.1:8080": false, "http://[::1]:8080": false, "http://localhost": false,
	} {
		for _, token := range []string{"secret", ""} {
			c, said := consoleWith(map[string]string{"COLOPHON_TOKEN": token})
			_, err := remote.Options{URL: url}.Connect(c)
			require.NoError(t, err)
			require.Equal(t, warned && token != "", said.Len() > 0, url)
			require.NotContains(t, said.String(), "secret")
		}
	}
}

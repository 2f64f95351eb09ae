package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/testing/authority"
)

// lockedBuffer is a bytes.Buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// withCertificate returns the settings of a server that listens on loopback and has a certificate
// signed by the given authority.
func withCertificate(t *testing.T, a *authority.Authority, name string) Config {
	t.Helper()
	config := Config{DataDir: filepath.Join(a.Dir, "data")}.WithDefaults()
	config.TLSCertFile, config.TLSKeyFile = a.IssueServer(name)
	return config
}

// behind starts a server that authenticates requests with the given gate, and returns its URL. The
// body of each response is the name of the client that sent the request.
func behind(t *testing.T, g gate) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if identity, err := g.who.Authenticate(r); err == nil {
				_, _ = io.WriteString(w, identity.Actor)
			}
		}),
	}
	ended := make(chan error, 1)
	go func() { ended <- g.serve(server, listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
		g.who.Close()
	})
	return g.scheme() + "://" + listener.Addr().String()
}

// visit sends a request over a new connection. It returns the body, the name in the server's
// certificate, and the major version of HTTP.
func visit(t *testing.T, url string, config *tls.Config) (body, server string, proto int, err error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := client.Do(r)
	if err != nil {
		return "", "", 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text), response.TLS.PeerCertificates[0].Subject.CommonName, response.ProtoMajor, nil
}

func TestTLS(t *testing.T) {
	s := authority.New(t)
	g, err := openGate(t.Context(), withCertificate(t, s, "first"), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := behind(t, g)
	require.Contains(t, url, "https://")
	_, name, proto, err := visit(t, url, &tls.Config{RootCAs: s.Roots()})
	require.NoError(t, err)
	require.Equal(t, "first", name)
	require.Equal(t, 2, proto)
	_, _, proto, err = visit(t, url, &tls.Config{RootCAs: s.Roots(), MaxVersion: tls.VersionTLS12})
	require.NoError(t, err)
	require.Equal(t, 2, proto)
	_, _, _, err = visit(t, url, &tls.Config{RootCAs: s.Roots(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "protocol version")
}

func TestChangedCertificatesAreReloaded(t *testing.T) {
	s := authority.New(t)
	log := new(lockedBuffer)
	config := withCertificate(t, s, "first")
	g, err := openGate(t.Context(), config, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	url := behind(t, g)
	serves := func(want string) {
		t.Helper()
		_, name, _, err := visit(t, url, &tls.Config{RootCAs: s.Roots()})
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	serves("first")
	first, err := os.ReadFile(config.TLSKeyFile)
	require.NoError(t, err)
	withCertificate(t, s, "second")
	serves("second")
	serves("second")
	require.Equal(t, 1, strings.Count(log.String(), "reloaded the certificate"))

	// While the certificate and the key do not match, or one of the files is missing, the server continues
	// to use the last valid pair.
	second, err := os.ReadFile(config.TLSKeyFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config.TLSKeyFile, first, 0o600))
	serves("second")
	serves("second")
	require.Equal(t, 1, strings.Count(log.String(), "cannot be used"), "the error must be logged only once")
	require.NoError(t, os.Remove(config.TLSCertFile))
	serves("second")
	require.Equal(t, 2, strings.Count(log.String(), "cannot be used"))
	require.NoError(t, os.WriteFile(config.TLSKeyFile, second, 0o600))
	withCertificate(t, s, "third")
	serves("third")
}

func TestClientCertificatesOpenTheGate(t *testing.T) {
	s, other := authority.New(t), authority.New(t)
	config := withCertificate(t, s, "server")
	config.AccessFile, config.TLSClientCAFile = filepath.Join(s.Dir, "access.yaml"), filepath.Join(s.Dir, "ca.pem")
	const rules = "mtls:\n  - {subject: CN=pipeline, name: pipe, ledgers: [default], scopes: [write]}\n"
	require.NoError(t, os.WriteFile(config.AccessFile, []byte(rules), 0o600))
	config.ListenAddress = "0.0.0.0:8080" // the test does not listen here; access rules permit a public address
	g, err := openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, "client certificates", g.describe(config))
	url := behind(t, g)
	for name, want := range map[string]string{"pipeline": "mtls:pipe", "somebody": ""} {
		body, _, _, err := visit(t, url, &tls.Config{RootCAs: s.Roots(), Certificates: []tls.Certificate{s.IssueClient(name)}})
		require.NoError(t, err)
		require.Equal(t, want, body)
	}
	body, _, _, err := visit(t, url, &tls.Config{RootCAs: s.Roots()})
	require.NoError(t, err, "a connection must need no client certificate")
	require.Empty(t, body)
	pair := other.IssueClient("pipeline")
	_, _, _, err = visit(t, url, &tls.Config{RootCAs: s.Roots(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }})
	require.Error(t, err, "a certificate of another authority") // the message varies: the connection can be closed before the client reads the TLS alert

	require.NoError(t, os.WriteFile(config.TLSClientCAFile, []byte("nothing"), 0o600))
	_, err = openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "the file has no PEM certificate")
	require.NoError(t, os.Remove(config.TLSClientCAFile))
	_, err = openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "tls-client-ca: ")
}

func TestTheGateSaysWhatIsOpen(t *testing.T) {
	config := Config{DataDir: t.TempDir()}.WithDefaults()
	log := new(lockedBuffer)
	address := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	says := func(description, warning string) {
		t.Helper()
		g, err := openGate(t.Context(), config, slog.New(slog.NewTextHandler(log, nil)))
		require.NoError(t, err)
		defer g.who.Close()
		require.Equal(t, "http", g.scheme())
		require.Equal(t, description, g.describe(config))
		before := len(log.String())
		g.warn(config.ListenAddress, slog.New(slog.NewTextHandler(log, nil)), address)
		if logged := log.String()[before:]; warning == "" {
			require.Empty(t, logged)
		} else {
			require.Contains(t, logged, warning)
		}
	}
	says("none: only this machine can reach the server", "")
	config.ListenAddress = "192.0.2.1:80"
	_, err := openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "listen: 192.0.2.1:80 can be reached from other machines, but there is no authentication")
	config.Insecure = true
	says("none: anyone who can reach the server can do everything", "there is no authentication")
	config.Insecure = false
	store := access.TokenStore{Dir: datadir.TokenFolder(config.DataDir), Now: time.Now}
	_, err = store.Create(access.TokenSpec{Name: "one", Grants: []access.Grant{{Ledgers: []string{"default"}, Scopes: access.ScopeRead}}})
	require.NoError(t, err)
	says("1 token", "tokens are sent unencrypted")
	_, err = store.Revoke("one")
	require.NoError(t, err)
	says("no valid token", "tokens are sent unencrypted")
	config.ListenAddress = "127.0.0.1:80"
	says("no valid token", "")
}

// Starting a server as the wrong user fails with an error that says which user must run it.
func TestTheGateOfAnotherUser(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("root may read everything, and Windows has no modes")
	}
	config := Config{DataDir: t.TempDir()}.WithDefaults()
	require.NoError(t, os.Chmod(config.DataDir, 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(config.DataDir, 0o700)) })
	_, err := openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	exit := &cli.ExitError{}
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitFailed, exit.Code)
	require.ErrorContains(t, err, "run the server as the owner of the data folder")
}

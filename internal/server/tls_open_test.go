package server

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/datadir"
	"colophon/internal/testing/authority"
)

// openConnection is a client that keeps one connection open.
type openConnection struct {
	t      *testing.T
	url    string
	token  string
	client *http.Client
}

func newOpenConnection(t *testing.T, url string, config *tls.Config, http2 bool) *openConnection {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: http2, MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	return &openConnection{t, url, "", &http.Client{Transport: transport, Timeout: time.Minute}}
}

// actor sends a request and returns the client's identity, or "" if the server refuses the client.
// It requires that the connection is new if fresh is set, and reused otherwise.
func (o *openConnection) actor(fresh bool) (actor string, state *tls.ConnectionState) {
	o.t.Helper()
	reused := false
	ctx := httptrace.WithClientTrace(o.t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url, nil)
	require.NoError(o.t, err)
	if o.token != "" {
		r.Header.Set("Authorization", "Bearer "+o.token)
	}
	response, err := o.client.Do(r)
	require.NoError(o.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(o.t, err)
	require.Equal(o.t, !fresh, reused)
	return string(text), response.TLS
}

// A revoked token is refused even on an open connection.
func TestRevocationOnAnOpenConnection(t *testing.T) {
	s := authority.New(t)
	config := withCertificate(t, s, "server")
	store := access.TokenStore{Dir: datadir.TokenFolder(config.DataDir), Now: time.Now}
	made, err := store.Create(access.TokenSpec{Name: "one", Grants: []access.Grant{{Ledgers: []string{"default"}, Scopes: access.ScopeRead}}})
	require.NoError(t, err)
	g, err := openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := behind(t, g)
	var connections []*openConnection
	for _, http2 := range []bool{false, true} {
		o := newOpenConnection(t, url, &tls.Config{RootCAs: s.Roots()}, http2)
		o.token = made.Text
		actor, _ := o.actor(true)
		require.Equal(t, "one", actor)
		connections = append(connections, o)
	}
	_, err = store.Revoke("one")
	require.NoError(t, err)
	for _, o := range connections {
		actor, _ := o.actor(false)
		require.Empty(t, actor)
	}
}

// If an authority is removed from the client CA file, its client certificates are refused, both on
// open connections and on connections that resume a session.
func TestAnAuthorityIsWithdrawn(t *testing.T) {
	s, other := authority.New(t), authority.New(t)
	config := withCertificate(t, s, "server")
	config.AccessFile, config.TLSClientCAFile = filepath.Join(s.Dir, "access.yaml"), filepath.Join(s.Dir, "clients.pem")
	const rules = "mtls:\n  - {subject: CN=pipeline, name: pipe, ledgers: [default], scopes: [write]}\n"
	require.NoError(t, os.WriteFile(config.AccessFile, []byte(rules), 0o600))
	s.WritePEM("clients.pem", "CERTIFICATE", s.Cert.Raw)
	g, err := openGate(t.Context(), config, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := behind(t, g)
	pair := s.IssueClient("pipeline")
	clientConfig := func(version uint16, sessions tls.ClientSessionCache) *tls.Config {
		return &tls.Config{RootCAs: s.Roots(), MaxVersion: version, ClientSessionCache: sessions,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
	}
	var connections []*openConnection
	caches := make(map[uint16]tls.ClientSessionCache)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		caches[version] = tls.NewLRUClientSessionCache(4)
		for _, http2 := range []bool{false, true} {
			o := newOpenConnection(t, url, clientConfig(version, nil), http2)
			actor, _ := o.actor(true)
			require.Equal(t, "mtls:pipe", actor)
			connections = append(connections, o)
		}
		resumed := false
		for range 2 { // the second connection resumes the session of the first
			o := newOpenConnection(t, url, clientConfig(version, caches[version]), true)
			actor, state := o.actor(true)
			require.Equal(t, "mtls:pipe", actor)
			resumed = state.DidResume
		}
		require.True(t, resumed, "sessions must be resumed, or the test shows nothing")
	}

	path := s.WritePEM("clients.pem", "CERTIFICATE", other.Cert.Raw)
	for _, o := range connections {
		require.Eventually(t, func() bool { actor, _ := o.actor(false); return actor == "" }, time.Minute, 10*time.Millisecond)
	}
	for _, cache := range caches {
		o := newOpenConnection(t, url, clientConfig(0, cache), true)
		r, err := o.client.Get(url)
		if err == nil { // otherwise, the server rejected the certificate during the handshake
			text, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			require.Empty(t, string(text))
		}
	}

	// The first authority is trusted again when the file contains both authorities.
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Cert.Raw}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Cert.Raw})...)
	require.NoError(t, os.WriteFile(path, both, 0o600))
	require.Eventually(t, func() bool { actor, _ := connections[0].actor(false); return actor == "mtls:pipe" }, time.Minute, 10*time.Millisecond)
	require.Len(t, certificatesIn(append([]byte("text\n"), both...)), 2)
}

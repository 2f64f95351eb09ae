package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
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
)

// lockedBuffer is a log that is written and read by several goroutines.
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

// signer signs certificates; its own is in the file ca.pem.
type signer struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{t: t, dir: t.TempDir()}
	s.key, s.cert = s.issue("authority", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	s.write("ca.pem", "CERTIFICATE", s.cert.Raw)
	return s
}

func (s *signer) issue(name string, template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	template.Subject, template.SerialNumber = pkix.Name{CommonName: name}, big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := s.cert, s.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	require.NoError(s.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(s.t, err)
	return key, cert
}

// write replaces a PEM file as whoever renews certificates does, and returns its path.
func (s *signer) write(name, kind string, der []byte) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	require.NoError(s.t, os.Rename(path+".new", path))
	return path
}

// server makes a certificate of a server on loopback, and what to set for it.
func (s *signer) server(name string) serveConfig {
	s.t.Helper()
	key, cert := s.issue(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(s.t, err)
	config := serveConfig{Data: filepath.Join(s.dir, "data")}.withDefaults()
	config.TLSCert, config.TLSKey = s.write("cert.pem", "CERTIFICATE", cert.Raw), s.write("key.pem", "PRIVATE KEY", der)
	return config
}

// client makes a certificate of a client.
func (s *signer) client(name string) tls.Certificate {
	s.t.Helper()
	key, cert := s.issue(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// roots believe the signer.
func (s *signer) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.cert)
	return roots
}

// behind serves who somebody is, through a gate, and returns the URL.
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

// visit makes a request over a new connection and returns the answer, its body and
// the name of the server's certificate.
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
	s := newSigner(t)
	g, err := openGate(s.server("first"), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := behind(t, g)
	require.Contains(t, url, "https://")
	_, name, proto, err := visit(t, url, &tls.Config{RootCAs: s.roots()})
	require.NoError(t, err)
	require.Equal(t, "first", name)
	require.Equal(t, 2, proto)
	_, _, proto, err = visit(t, url, &tls.Config{RootCAs: s.roots(), MaxVersion: tls.VersionTLS12})
	require.NoError(t, err)
	require.Equal(t, 2, proto)
	_, _, _, err = visit(t, url, &tls.Config{RootCAs: s.roots(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "protocol version")
}

func TestCertificatesAreReadAnew(t *testing.T) {
	s := newSigner(t)
	log := new(lockedBuffer)
	config := s.server("first")
	g, err := openGate(config, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	url := behind(t, g)
	serves := func(want string) {
		t.Helper()
		_, name, _, err := visit(t, url, &tls.Config{RootCAs: s.roots()})
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	serves("first")
	first, err := os.ReadFile(config.TLSKey)
	require.NoError(t, err)
	s.server("second")
	serves("second")
	serves("second")
	require.Equal(t, 1, strings.Count(log.String(), "the certificate was read anew"))

	// Half of a change: the old certificate is used on until the key is there too.
	second, err := os.ReadFile(config.TLSKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config.TLSKey, first, 0o600))
	serves("second")
	serves("second")
	require.Equal(t, 1, strings.Count(log.String(), "cannot be used"), "logged once")
	require.NoError(t, os.Remove(config.TLSCert))
	serves("second")
	require.Equal(t, 2, strings.Count(log.String(), "cannot be used"))
	require.NoError(t, os.WriteFile(config.TLSKey, second, 0o600))
	s.server("third")
	serves("third")
}

func TestClientCertificatesOpenTheGate(t *testing.T) {
	s, other := newSigner(t), newSigner(t)
	config := s.server("server")
	config.AccessFile, config.TLSClientCA = filepath.Join(s.dir, "access.yaml"), filepath.Join(s.dir, "ca.pem")
	const rules = "mtls:\n  - {subject: CN=pipeline, name: pipe, ledgers: [default], scopes: [write]}\n"
	require.NoError(t, os.WriteFile(config.AccessFile, []byte(rules), 0o600))
	config.Listen = "0.0.0.0:8080" // not used here: it may be, with rules
	g, err := openGate(config, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, "client certificates", g.describe(config))
	url := behind(t, g)
	for name, want := range map[string]string{"pipeline": "mtls:pipe", "somebody": ""} {
		body, _, _, err := visit(t, url, &tls.Config{RootCAs: s.roots(), Certificates: []tls.Certificate{s.client(name)}})
		require.NoError(t, err)
		require.Equal(t, want, body)
	}
	body, _, _, err := visit(t, url, &tls.Config{RootCAs: s.roots()})
	require.NoError(t, err, "none is needed for a connection")
	require.Empty(t, body)
	pair := other.client("pipeline")
	_, _, _, err = visit(t, url, &tls.Config{RootCAs: s.roots(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }})
	require.Error(t, err, "of another authority") // an alert, or a closed connection before it is read

	require.NoError(t, os.WriteFile(config.TLSClientCA, []byte("nothing"), 0o600))
	_, err = openGate(config, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "there is no PEM certificate in it")
	require.NoError(t, os.Remove(config.TLSClientCA))
	_, err = openGate(config, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "tls-client-ca: ")
}

func TestTheGateSaysWhatIsOpen(t *testing.T) {
	config := serveConfig{Data: t.TempDir()}.withDefaults()
	log := new(lockedBuffer)
	address := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	says := func(description, warning string) {
		t.Helper()
		g, err := openGate(config, slog.New(slog.NewTextHandler(log, nil)))
		require.NoError(t, err)
		defer g.who.Close()
		require.Equal(t, "http", g.scheme())
		require.Equal(t, description, g.describe(config))
		before := len(log.String())
		g.warn(config, slog.New(slog.NewTextHandler(log, nil)), address)
		if said := log.String()[before:]; warning == "" {
			require.Empty(t, said)
		} else {
			require.Contains(t, said, warning)
		}
	}
	says("none: only this machine can reach it", "")
	config.Listen = "192.0.2.1:80"
	_, err := openGate(config, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "listen: 192.0.2.1:80 can be reached from other machines, and there is no authentication")
	config.Insecure = true
	says("none: whoever reaches it may do everything", "there is no authentication")
	config.Insecure = false
	store := access.Store{Dir: datadir.Access(config.Data), Now: time.Now}
	_, err = store.Create(access.NewToken{Name: "one", Grants: []access.Grant{{Ledgers: []string{"default"}, Scopes: access.Read}}})
	require.NoError(t, err)
	says("1 token", "tokens travel unencrypted")
	_, err = store.Revoke("one")
	require.NoError(t, err)
	says("no token that holds", "tokens travel unencrypted")
	config.Listen = "127.0.0.1:80"
	says("no token that holds", "")
}

func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "90d": now.AddDate(0, 0, 90), "12h": now.Add(12 * time.Hour), "1h30m": now.Add(90 * time.Minute), "36500d": now.Add(36500 * 24 * time.Hour),
		"2030-01-31T12:00:00Z": time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC),
	} {
		got, err := parseExpiry(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), text)
	}
	for _, text := range []string{"0d", "-1d", "1.5d", "36501d", "99999999999999999999d", "d", "90", "0s", "-1h", "2030-01-31", "never"} {
		_, err := parseExpiry(text, now)
		require.ErrorContains(t, err, "is neither a span", text)
	}
}

// Help has nothing to say to who starts the server as the wrong user.
func TestTheGateOfAnotherUser(t *testing.T) {
	skipWithoutModes(t)
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	config := serveConfig{Data: t.TempDir()}.withDefaults()
	require.NoError(t, os.Chmod(config.Data, 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(config.Data, 0o700)) })
	_, err := openGate(config, slog.New(slog.DiscardHandler))
	exit := &cli.ExitError{}
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitFailed, exit.Code)
	require.ErrorContains(t, err, "run this as the owner of the data folder")
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/authority"
	"colophon/proofs"
)

// certified starts a server whose certificate is signed by issuer, is valid for the given names, and
// expires at until.
func certified(t *testing.T, issuer *authority.Authority, names []string, until time.Time) *httptest.Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: until.Add(-time.Hour), NotAfter: until}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, issuer.Cert, &key.PublicKey, issuer.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discard errors about failed handshakes
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// If a command cannot reach its server, the error states the cause and what to change.
func TestConnectionErrorsNameTheCause(t *testing.T) {
	ours, another := authority.New(t), authority.New(t)
	soon := time.Now().Add(time.Hour)
	good := certified(t, ours, []string{"127.0.0.1"}, soon)
	elsewhere := certified(t, ours, []string{"ledger.example.org"}, soon)
	expired := certified(t, ours, []string{"127.0.0.1"}, time.Now().Add(-time.Hour))
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	alert, err := net.Listen("tcp", "127.0.0.1:0") // this server answers plain HTTP with a TLS alert
	require.NoError(t, err)
	defer alert.Close()
	go func() {
		for {
			connection, err := alert.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, 10))
			_, _ = connection.Write([]byte("\x15\x03\x01\x00\x02\x02\x46\n\n"))
			_ = connection.Close()
		}
	}()
	ca, otherCA := filepath.Join(ours.Dir, "ca.pem"), filepath.Join(another.Dir, "ca.pem")
	key := proofs.GenerateKey()
	signer, err := key.Signer("x.example")
	require.NoError(t, err)
	input := filepath.Join(t.TempDir(), "lines")
	require.NoError(t, os.WriteFile(input, []byte("{}\n"), 0o600))
	for _, c := range []struct{ name, url, ca, says string }{
		{"unknown authority", good.URL, "", "name the file of the CA certificate with --ca-file"},
		{"another authority", good.URL, otherCA, "the certificate is not signed by a CA in " + otherCA},
		{"another name", elsewhere.URL, ca, "use a host name from the certificate"},
		{"expired", expired.URL, ca, "the certificate has expired or is not valid yet"},
		{"https to http", strings.Replace(plain.URL, "http:", "https:", 1), ca, "the server does not speak TLS at this address: use " + plain.URL},
		{"http to https", strings.Replace(good.URL, "https:", "http:", 1), ca, "the server speaks TLS: use " + good.URL},
		{"http to an alert", "http://" + alert.Addr().String(), ca, "the server speaks TLS: use https://" + alert.Addr().String()},
	} {
		for _, args := range [][]string{
			{"audit", c.url + "/v1/ledgers/default", "--key", signer.Verifier().String()},
			{"ledger", "list", "--server", c.url},
			{"import", "--server", c.url, input},
		} {
			if c.ca != "" {
				args = append(args, "--ca-file", c.ca)
			}
			o := commandLine(t.Context(), args...)
			require.NotZero(t, o.code, "%s: %s", c.name, args)
			require.Contains(t, o.stderr, c.says, "%s: %s", c.name, args)
			require.NotContains(t, o.stderr, "Is the server running", "%s: %s", c.name, args)
			require.NotContains(t, o.stderr, "Once the server answers", "%s: %s", c.name, args)
		}
	}
}

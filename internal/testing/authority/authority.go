// Package authority provides a certificate authority for tests.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates for tests. Its own certificate is the file ca.pem in Dir.
type Authority struct {
	Dir  string
	Key  *ecdsa.PrivateKey
	Cert *x509.Certificate

	t *testing.T
}

// New creates an authority in a temporary folder, which is removed after the test.
func New(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{t: t, Dir: t.TempDir()}
	a.Key, a.Cert = a.Issue("authority", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.WritePEM("ca.pem", "CERTIFICATE", a.Cert.Raw)
	return a
}

// Issue makes a key and a certificate that is valid from an hour ago until an hour from now.
func (a *Authority) Issue(name string, template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template.Subject, template.SerialNumber = pkix.Name{CommonName: name}, big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.Cert, a.Key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return key, cert
}

// WritePEM atomically replaces a PEM file in Dir, as tools that renew certificates do, and returns its
// path.
func (a *Authority) WritePEM(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.Dir, name)
	require.NoError(a.t, os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	require.NoError(a.t, os.Rename(path+".new", path))
	return path
}

// IssueServer creates a certificate for a server on 127.0.0.1, and returns the paths of the
// certificate file and the key file.
func (a *Authority) IssueServer(name string) (cert, key string) {
	a.t.Helper()
	private, public := a.Issue(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.t, err)
	return a.WritePEM("cert.pem", "CERTIFICATE", public.Raw), a.WritePEM("key.pem", "PRIVATE KEY", der)
}

// IssueClient creates a client certificate.
func (a *Authority) IssueClient(name string) tls.Certificate {
	a.t.Helper()
	key, cert := a.Issue(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// Roots returns a pool that contains only this authority.
func (a *Authority) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	return roots
}

package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority is a certificate authority for tests.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key, a.cert = a.issue(template)
	return a
}

// issue creates a key and a certificate for it, signed by the authority. If the authority has no
// certificate yet, the new one is self-signed. The certificate is valid from one hour ago to one
// hour from now, because TLS handshakes in tests use the machine's clock.
func (a *authority) issue(template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return key, cert
}

func (a *authority) pair(template *x509.Certificate) tls.Certificate {
	key, cert := a.issue(template)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func clientTemplate() *x509.Certificate {
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.org", Path: "/pipeline"}
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "pipeline", Organization: []string{"Example, Inc."}, Country: []string{"DE"}},
		DNSNames:    []string{"Pipeline.example.org"},
		IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}, EmailAddresses: []string{"p@example.org"}, URIs: []*url.URL{spiffe},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func TestCertificateRules(t *testing.T) {
	_, leaf := newAuthority(t).issue(clientTemplate())
	rule := func(subject, san, name string, scopes ...string) CertificateRule {
		return CertificateRule{Subject: subject, SAN: san, Name: name, Ledgers: []string{"default"}, Scopes: scopes}
	}
	match := func(rules ...CertificateRule) (*Identity, error) {
		require.NoError(t, Rules{MTLS: rules}.check())
		return matchCertificate(certificateRules(rules), leaf)
	}
	const subject = `CN=pipeline,O=Example\, Inc.,C=DE`
	for _, r := range []CertificateRule{
		rule(subject, "", "p", "write"), rule("", "dns:pipeline.EXAMPLE.org", "p", "write"), rule("", "email:p@example.org", "p", "write"),
		rule("", "ip:192.0.2.1", "p", "write"), rule("", "uri:spiffe://example.org/pipeline", "p", "write"),
	} {
		identity, err := match(r)
		require.NoError(t, err)
		require.Equal(t, &Identity{Actor: "mtls:p", Grants: []Grant{{Ledgers: []string{"default"}, Scopes: ScopeWrite}}}, identity)
	}
	for _, r := range []CertificateRule{
		rule("CN=pipeline", "", "p", "write"), rule("pipeline", "", "p", "write"), rule("", "dns:p@example.org", "p", "write"),
		rule("", "email:P@example.org", "p", "write"), rule("", "uri:spiffe://example.org/", "p", "write"), rule("", "dns:example.org", "p", "write"),
	} {
		_, err := match(r)
		require.ErrorContains(t, err, "no rule matches the client certificate: its subject is")
	}
	identity, err := match(rule("CN=x", "", "x", "admin"), rule("", "ip:192.0.2.1", "p", "read"), rule(subject, "", "other", "admin"), rule(subject, "", "p", "write"))
	require.NoError(t, err)
	require.Equal(t, "mtls:p", identity.Actor)
	require.Equal(t, ScopeRead|ScopeWrite, identity.ScopesOn("default"), "the grants of one name add up")

	_, err = matchCertificate(nil, &x509.Certificate{RawSubject: []byte{1}})
	require.ErrorContains(t, err, "reading the subject")
}

// subjectOf keeps a second common name, which pkix.Name drops.
func TestSubjectsAreWhole(t *testing.T) {
	template := clientTemplate()
	common := func(name string) pkix.RelativeDistinguishedNameSET {
		return pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: name}}
	}
	raw, err := asn1.Marshal(pkix.RDNSequence{common("mallory"), common("pipeline")})
	require.NoError(t, err)
	template.RawSubject = raw
	_, leaf := newAuthority(t).issue(template)
	require.Equal(t, "pipeline", leaf.Subject.CommonName)
	subject, err := subjectOf(leaf)
	require.NoError(t, err)
	require.Equal(t, "CN=pipeline,CN=mallory", subject)
}

// secured starts a TLS server whose responses name the caller in the Actor header.
func secured(t *testing.T, b *bench, clients *x509.CertPool) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, err := b.Authenticate(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.Header().Set("Actor", identity.Actor)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // discards the errors of refused handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestClientCertificates(t *testing.T) {
	clients, strangers := newAuthority(t), newAuthority(t)
	b := open(t, Rules{MTLS: []CertificateRule{{SAN: "dns:pipeline.example.org", Name: "pipeline", Ledgers: []string{"default"}, Scopes: []string{"write"}}}})
	token := b.token("one")
	b.clock.add(time.Since(b.clock.now()))
	server := secured(t, b, clients.pool())
	ask := func(pair *tls.Certificate, authorization string) (actor string, status int, err error) {
		t.Helper()
		client := server.Client()
		transport := client.Transport.(*http.Transport).Clone()
		defer transport.CloseIdleConnections()
		if pair != nil {
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		response, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return "", 0, err
		}
		defer response.Body.Close()
		return response.Header.Get("Actor"), response.StatusCode, nil
	}
	known, other := clients.pair(clientTemplate()), clients.pair(&x509.Certificate{Subject: pkix.Name{CommonName: "other"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	stranger := strangers.pair(clientTemplate())
	ofServer := clientTemplate()
	ofServer.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	notForClients := clients.pair(ofServer)

	for name, c := range map[string]struct {
		pair          *tls.Certificate
		authorization string
		actor         string // "" if the request is refused
	}{
		"certificate":                   {&known, "", "mtls:pipeline"},
		"none":                          {nil, "", ""},
		"unknown to the rules":          {&other, "", ""},
		"a token wins":                  {&known, "Bearer " + token.Text, "one"},
		"a token without certificate":   {nil, "Bearer " + token.Text, "one"},
		"an invalid token is not saved": {&known, "Bearer " + token.Text + "a", ""},
		"nor is another scheme":         {&known, "Basic abc", ""},
		"token with unknown":            {&other, "Bearer " + token.Text, "one"},
	} {
		actor, status, err := ask(c.pair, c.authorization)
		require.NoError(t, err, name)
		require.Equal(t, c.actor, actor, name)
		require.Equal(t, c.actor == "", status == http.StatusUnauthorized, name)
	}
	require.Contains(t, b.log.String(), "no rule matches the client certificate")
	for _, pair := range []*tls.Certificate{&stranger, &notForClients} {
		_, _, err := ask(pair, "")
		require.ErrorContains(t, err, "remote error: tls", "the handshake must refuse the certificate")
	}

	b.clock.add(2 * time.Hour)
	actor, _, err := ask(&known, "")
	require.NoError(t, err)
	require.Empty(t, actor)
	require.Contains(t, b.log.String(), "in the client certificate's chain is valid only from")
}

// A certificate is not a credential if there are no rules, or if no handshake has verified it.
func TestCertificatesThatAreNoCredentials(t *testing.T) {
	_, leaf := newAuthority(t).issue(clientTemplate())
	verified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	r := httpGet()
	r.TLS = verified
	_, err := open(t, Rules{}).Authenticate(r)
	require.Equal(t, ErrNoCredentials, err)
	b := open(t, Rules{MTLS: []CertificateRule{{SAN: "ip:192.0.2.1", Name: "p", Ledgers: []string{"a"}, Scopes: []string{"read"}}}})
	b.clock.add(time.Since(b.clock.now()))
	b.accepts(r, "mtls:p")
	r.TLS = &tls.ConnectionState{PeerCertificates: verified.PeerCertificates}
	_, err = b.Authenticate(r)
	require.Equal(t, ErrNoCredentials, err)
}

// A chain that a handshake has verified is valid until one of its certificates expires or its
// authority is no longer trusted.
func TestVerifiedChainsAreCheckedAgain(t *testing.T) {
	clients, others := newAuthority(t), newAuthority(t)
	_, leaf := clients.issue(clientTemplate())
	expired := *clients.cert
	expired.NotAfter = time.Now().Add(-time.Hour)
	trusted := map[*x509.Certificate]bool{clients.cert: true, &expired: true}
	b := open(t, Rules{MTLS: []CertificateRule{{SAN: "ip:192.0.2.1", Name: "p", Ledgers: []string{"a"}, Scopes: []string{"read"}}}})
	b.clock.add(time.Since(b.clock.now()))
	b.trusts = func(c *x509.Certificate) bool { return trusted[c] }
	r := httpGet()
	for name, c := range map[string]struct {
		chains [][]*x509.Certificate
		reason string // "" if the chain is accepted
	}{
		"trusted":              {[][]*x509.Certificate{{leaf, clients.cert}}, ""},
		"one of two":           {[][]*x509.Certificate{{leaf, others.cert}, {leaf, clients.cert}}, ""},
		"no longer trusted":    {[][]*x509.Certificate{{leaf, others.cert}}, "no longer trusted"},
		"trusted in between":   {[][]*x509.Certificate{{leaf, clients.cert, others.cert}}, "no longer trusted"},
		"an expired authority": {[][]*x509.Certificate{{leaf, &expired}}, "is valid only from"},
	} {
		t.Run(name, func(t *testing.T) {
			r.TLS = &tls.ConnectionState{VerifiedChains: c.chains}
			if c.reason == "" {
				b.accepts(r, "mtls:p")
			} else {
				b.refuses(r, c.reason)
			}
		})
	}
}

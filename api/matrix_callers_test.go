package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"colophon/api/access"
)

// caller is a client with its credentials, and the scopes that they grant.
type caller struct {
	name          string
	authorization []string // values of the Authorization header
	certificate   *tls.Certificate
	query         string // query parameters added to every URL

	valid      bool
	scopes     []string // granted on the ledgers "default" and "spare"
	everywhere bool     // whether the scopes are granted on all ledgers
	elsewhere  bool     // whether the scopes are granted only on the ledger "other"
}

// scopeNames lists all scopes.
var scopeNames = []string{"write", "read", "content", "log", "admin", "metrics"}

// authority is a certificate authority for client certificates.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(template, template, nil)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, with *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	if with == nil {
		with = key
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), with)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, key
}

// client returns a client certificate with the given common name.
func (a *authority) client(name string) *tls.Certificate {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.cert, a.key)
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// issuer is a fake OpenID Connect issuer.
type issuer struct {
	t   testing.TB
	url string
	key *ecdsa.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i := &issuer{t: t, key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig"}}})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *issuer) answer(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(document); err != nil {
		i.t.Error(err)
	}
}

// claims returns the claims of a token for a member of a group.
func (i *issuer) claims(group string) map[string]any {
	return map[string]any{"iss": i.url, "aud": "colophon", "sub": "ana", "group": group,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
}

// token returns a JWT with the given claims, signed with key.
func (i *issuer) token(algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	i.t.Helper()
	payload, err := json.Marshal(claims)
	require.NoError(i.t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	require.NoError(i.t, err)
	signed, err := signer.Sign(payload)
	require.NoError(i.t, err)
	text, err := signed.CompactSerialize()
	require.NoError(i.t, err)
	return text
}

// unsigned returns a JWT with alg none.
func (i *issuer) unsigned(claims map[string]any) string {
	i.t.Helper()
	payload, err := json.Marshal(claims)
	require.NoError(i.t, err)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "."
}

// publicPEM returns the issuer's public key in PEM format.
func (i *issuer) publicPEM() []byte {
	i.t.Helper()
	der, err := x509.MarshalPKIXPublicKey(i.key.Public())
	require.NoError(i.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// gated is a service that requires credentials and is also served over TLS. Its fields provide what
// tests need to create callers of every kind.
type gated struct {
	*service
	tls       *httptest.Server
	authority *authority
	issuer    *issuer
	tokens    access.TokenStore
	root      string // a token with all scopes on all ledgers
	log       *lockedLog
	secrets   []string // texts that must not appear in the log
	clients   map[*tls.Certificate]*http.Client
	number    int // counter that makes names unique
}

func bearer(token string) []string { return []string{"Bearer " + token} }

// token creates a token that does not expire.
func (g *gated) token(name string, ledgers, scopes []string) access.CreatedToken {
	g.t.Helper()
	return g.tokenAt(time.Now(), name, ledgers, scopes, time.Time{})
}

func (g *gated) tokenAt(now time.Time, name string, ledgers, scopes []string, expires time.Time) access.CreatedToken {
	g.t.Helper()
	set, err := access.ParseScopes(scopes...)
	require.NoError(g.t, err)
	store := access.TokenStore{Dir: g.tokens.Dir, Now: func() time.Time { return now }}
	made, err := store.Create(access.TokenSpec{Name: name, Grants: []access.Grant{{Ledgers: ledgers, Scopes: set}}, Expires: expires})
	require.NoError(g.t, err)
	g.secrets = append(g.secrets, made.Text)
	return made
}

// callers returns two callers for each scope: one with the scope on two ledgers, and one with the
// scope on all ledgers. It also returns some callers with several scopes.
func (g *gated) callers() []caller {
	own, all := []string{"default", "spare"}, []string{access.AllLedgers}
	var list []caller
	for _, scope := range scopeNames {
		one := []string{scope}
		list = append(list,
			caller{name: scope, authorization: bearer(g.token(scope, own, one).Text), valid: true, scopes: one},
			caller{name: scope + " everywhere", authorization: bearer(g.token(scope+"-everywhere", all, one).Text), valid: true, scopes: one, everywhere: true})
	}
	return append(list,
		caller{name: "all scopes", authorization: bearer(g.token("all", own, scopeNames).Text), valid: true, scopes: scopeNames},
		caller{name: "all scopes everywhere", authorization: bearer(g.root), valid: true, scopes: scopeNames, everywhere: true},
		caller{name: "read and content", authorization: bearer(g.token("reader", own, []string{"read", "content"}).Text), valid: true, scopes: []string{"read", "content"}},
		caller{name: "another ledger", authorization: bearer(g.token("stranger", []string{"other"}, scopeNames).Text), valid: true, scopes: scopeNames, elsewhere: true},
	)
}

// badTokens returns callers whose token is missing, invalid, expired, or revoked.
func (g *gated) badTokens() []caller {
	good := g.token("good", []string{"default"}, scopeNames)
	revoked := g.token("revoked", []string{"default"}, scopeNames)
	_, err := g.tokens.Revoke("revoked")
	require.NoError(g.t, err)
	past := time.Now().Add(-2 * time.Hour)
	expired := g.tokenAt(past, "expired", []string{access.AllLedgers}, scopeNames, past.Add(time.Hour))
	changed := []byte(good.Text)
	changed[len(changed)-1] ^= 'a' ^ 'b'
	unknown := []byte(good.Text)
	unknown[len("colophon_")] ^= 'a' ^ 'b'
	g.secrets = append(g.secrets, string(changed), string(unknown))
	return []caller{
		{name: "no credentials"},
		{name: "empty header", authorization: []string{""}},
		{name: "no token", authorization: []string{"Bearer"}},
		{name: "no scheme", authorization: []string{good.Text}},
		{name: "another scheme", authorization: []string{"Basic " + base64.StdEncoding.EncodeToString([]byte("good:"+good.Text))}},
		{name: "two headers", authorization: []string{"Bearer " + good.Text, "Bearer " + good.Text}},
		{name: "two tokens", authorization: []string{"Bearer " + good.Text + ", Bearer " + good.Text}},
		{name: "not ASCII", authorization: bearer("colophon_é")},
		{name: "in the query", query: "access_token=" + good.Text},
		{name: "unknown token", authorization: bearer(string(unknown))},
		{name: "wrong secret", authorization: bearer(string(changed))},
		{name: "cut short", authorization: bearer(good.Text[:len(good.Text)-1])},
		{name: "revoked", authorization: bearer(revoked.Text)},
		{name: "expired", authorization: bearer(expired.Text)},
	}
}

// outsiders returns callers whose credentials, valid or not, come from an OpenID Connect issuer or
// a certificate authority.
func (g *gated) outsiders() []caller {
	i := g.issuer
	claims := func(name string, value any) map[string]any {
		c := i.claims("staff")
		c[name] = value
		return c
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(g.t, err)
	sign := func(claims map[string]any) []string {
		token := i.token(jose.ES256, i.key, claims)
		g.secrets = append(g.secrets, token)
		return bearer(token)
	}
	certified := g.authority.client("worker")
	return []caller{
		{name: "JWT", authorization: sign(i.claims("staff")), valid: true, scopes: []string{"read"}},
		{name: "JWT without a scope", authorization: sign(i.claims("guests")), valid: true},
		{name: "JWT with alg none", authorization: bearer(i.unsigned(i.claims("staff")))},
		{name: "JWT with HS256 and the public key", authorization: bearer(i.token(jose.HS256, i.publicPEM(), i.claims("staff")))},
		{name: "JWT of another key", authorization: bearer(i.token(jose.ES256, other, i.claims("staff")))},
		{name: "JWT of another issuer", authorization: sign(claims("iss", "https://id.example.org"))},
		{name: "JWT for another audience", authorization: sign(claims("aud", "wiki"))},
		{name: "JWT that has expired", authorization: sign(claims("exp", time.Now().Add(-time.Hour).Unix()))},
		{name: "JWT that is not valid yet", authorization: sign(claims("nbf", time.Now().Add(time.Hour).Unix()))},
		{name: "certificate", certificate: certified, valid: true, scopes: []string{"write", "log"}},
		{name: "unknown certificate", certificate: g.authority.client("visitor")},
		{name: "certificate and bad token", certificate: certified, authorization: bearer("colophon_x")},
	}
}

// rules returns the access rules for the issuer's tokens and for certificates.
func (g *gated) rules() access.Rules {
	own := []string{"default", "spare"}
	return access.Rules{
		OIDC: []access.IssuerRule{{Issuer: g.issuer.url, Audience: "colophon", ClaimRules: []access.ClaimRule{
			{Claim: "group", Value: "staff", Ledgers: own, Scopes: []string{"read"}},
		}}},
		MTLS: []access.CertificateRule{{Subject: "CN=worker", Name: "worker", Ledgers: own, Scopes: []string{"write", "log"}}},
	}
}

// accessDir returns the path of a folder for tokens. The folder does not exist yet.
func accessDir(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "access")
}

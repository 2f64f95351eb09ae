package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"colophon/internal/testing/locked"
)

// provider is an OpenID Connect issuer that serves its discovery document and keys over HTTP.
type provider struct {
	t     *testing.T
	clock *clock
	url   string
	keys  map[string]*rsa.PrivateKey // keyed by key ID; rotate adds keys with mu held

	mu        sync.Mutex // guards the fields below
	down      bool
	published []string         // IDs of the published keys
	asked     map[string]int   // number of requests for each path
	answer    http.HandlerFunc // if not nil, replaces the normal responses
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, clock: newClock(), keys: make(map[string]*rsa.PrivateKey), asked: make(map[string]int)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	p.rotate("first")
	return p
}

// rotate publishes exactly the keys with the given IDs. It generates those that do not exist yet.
func (p *provider) rotate(ids ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if p.keys[id] == nil {
			var err error
			p.keys[id], err = rsa.GenerateKey(rand.Reader, 2048)
			require.NoError(p.t, err)
		}
	}
	p.published = ids
}

func (p *provider) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *provider) setAnswer(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *provider) times(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// ServeHTTP serves the discovery document and the keys.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[r.URL.Path]++
	if p.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if p.answer != nil {
		p.answer(w, r)
		return
	}
	if r.URL.Path == discoverySuffix {
		p.write(w, map[string]any{"issuer": p.url, "jwks_uri": p.url + "/keys", "token_endpoint": "https://tokens.example.org/token", "id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"}})
		return
	}
	var set jose.JSONWebKeySet
	for _, id := range p.published {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: p.keys[id].Public(), KeyID: id, Use: "sig"})
	}
	p.write(w, set)
}

func (p *provider) write(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(document); err != nil {
		p.t.Error(err)
	}
}

// rules returns Rules that make a server trust the provider. Each change function can modify the
// issuer's rule.
func (p *provider) rules(change ...func(*IssuerRule)) Rules {
	o := IssuerRule{Issuer: p.url, Audience: "colophon", ClaimRules: []ClaimRule{
		{Claim: "groups", Value: "writers", Ledgers: []string{"default"}, Scopes: []string{"write"}},
		{Claim: "iss", Value: p.url, Ledgers: []string{AllLedgers}, Scopes: []string{"log"}},
		{Claim: "scope", Value: "ledger:read", Ledgers: []string{"default"}, Scopes: []string{"read"}},
	}}
	for _, f := range change {
		f(&o)
	}
	return Rules{OIDC: []IssuerRule{o}}
}

// claims returns the claims of a valid token, after applying each change to them.
func (p *provider) claims(change ...func(map[string]any)) map[string]any {
	now := p.clock.now()
	claims := map[string]any{"iss": p.url, "aud": []string{"other", "colophon"}, "sub": "alice", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for _, f := range change {
		f(claims)
	}
	return claims
}

func set(name string, value any) func(map[string]any) {
	return func(claims map[string]any) { claims[name] = value }
}

// sign returns a JWT that carries claims and is signed with key. Its kid is id, unless id is "".
func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	return signText(t, algorithm, key, id, payload)
}

func signText(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, payload []byte) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if id != "" {
		options = options.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

// token returns a request with a token that the provider has signed with the key named by id.
func (p *provider) token(id string, change ...func(map[string]any)) *http.Request {
	p.t.Helper()
	return with("Bearer " + sign(p.t, jose.RS256, p.keys[id], id, p.claims(change...)))
}

// trusting returns a bench that trusts the provider and shares its clock.
func (p *provider) trusting(change ...func(*IssuerRule)) *bench {
	p.t.Helper()
	b := &bench{t: p.t, clock: p.clock, log: new(locked.Buffer), store: TokenStore{Dir: p.t.TempDir() + "/access", Now: p.clock.now}}
	b.reopen(p.rules(change...))
	return b
}

func TestTokensOfAnIssuer(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	require.True(t, b.RequiresIdentity())
	require.Zero(t, p.times(discoverySuffix), "a server starts without its issuer")
	identity := b.accepts(p.token("first"), "oidc:alice")
	require.Equal(t, ScopeLog, identity.ScopesOn("default"))
	identity = b.accepts(p.token("first", set("groups", []any{7, "readers", nil, "writers"}), set("scope", "openid ledger:read")), "oidc:alice")
	require.Equal(t, ScopeWrite|ScopeRead|ScopeLog, identity.ScopesOn("default"))
	require.Equal(t, ScopeLog, identity.ScopesOn("other"))
	identity = b.accepts(p.token("first", set("groups", "writers")), "oidc:alice")
	require.Equal(t, ScopeWrite|ScopeLog, identity.ScopesOn("default"))
	identity = b.accepts(p.token("first", set("groups", "writers readers"), set("scope", map[string]any{"ledger:read": true})), "oidc:alice")
	require.Equal(t, ScopeLog, identity.ScopesOn("default"))
	// If a token has no kid, every key is tried. A token is still valid in the second given by its
	// exp claim.
	b.accepts(with("Bearer "+sign(t, jose.PS512, p.keys["first"], "", p.claims(set("aud", "colophon"), set("exp", p.clock.now().Unix())))), "oidc:alice")
	b.accepts(p.token("first", set("nbf", p.clock.now().Add(4*time.Minute).Unix())), "oidc:alice")
	require.Equal(t, 1, p.times(discoverySuffix))
	require.Equal(t, 1, p.times("/keys"))
}

// SignInOrigins returns the origin of each issuer that has a ConsoleClientID and, once discovery
// has succeeded, the origin of its token endpoint.
func TestConsoleOrigins(t *testing.T) {
	p := newProvider(t)
	require.Empty(t, p.trusting().SignInOrigins())
	require.Empty(t, (*Authenticator)(nil).SignInOrigins())
	b := p.trusting(func(o *IssuerRule) { o.ConsoleClientID = "console" })
	require.Equal(t, p.url, b.SignInOrigins()[0])
	b.accepts(p.token("first"), "oidc:alice") // waits until discovery has finished
	require.Equal(t, []string{p.url, "https://tokens.example.org"}, b.SignInOrigins())
}

// originOf never returns an origin that contains a semicolon or a space, which could start another
// directive or source in a Content-Security-Policy.
func TestOriginsOfAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://id.example.org/realms/a?b#c": "https://id.example.org", "http://127.0.0.1:8080": "http://127.0.0.1:8080", "http://[::1]:80/": "http://[::1]:80",
		"https://a;script-src 'unsafe-inline'/": "", "https://a;b/": "", "https://*.example.org/": "", "javascript:x": "", "data:,": "", "": "", "ftp://a/": "",
	} {
		require.Equal(t, want, originOf(address), address)
	}
}

func TestTokensOfAnIssuerThatAreRefused(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	b.accepts(p.token("first"), "oidc:alice")
	now := p.clock.now()
	public, err := x509.MarshalPKIXPublicKey(p.keys["first"].Public())
	require.NoError(t, err)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	payload, err := json.Marshal(p.claims())
	require.NoError(t, err)
	good := strings.TrimPrefix(p.token("first").Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(good, ".")

	for name, c := range map[string]struct{ token, reason string }{
		"none":                      {part(`{"alg":"none","typ":"JWT"}`) + "." + part(string(payload)) + ".", "malformed jwt"},
		"None":                      {part(`{"alg":"None"}`) + "." + part(string(payload)) + ".", "malformed jwt"},
		"no signature":              {parts[0] + "." + parts[1] + ".", "reason="},
		"HS256 with the public key": {sign(t, jose.HS256, publicPEM, "first", p.claims()), "malformed jwt"},
		"HS256 with its DER":        {sign(t, jose.HS256, public, "first", p.claims()), "malformed jwt"},
		"another key, its id":       {sign(t, jose.RS256, stranger, "first", p.claims()), "failed to verify"},
		"another kind of key":       {sign(t, jose.ES256, curve, "first", p.claims()), "failed to verify"},
		"changed payload":           {parts[0] + "." + part(strings.Replace(string(payload), "alice", "admin", 1)) + "." + parts[2], "failed to verify"},
		"wrong issuer":              {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("iss", "https://other.example"))), "issuer is not configured"},
		"issuer with a slash":       {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("iss", p.url+"/"))), "issuer is not configured"},
		"wrong audience":            {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("aud", "other"))), "is not for the audience"},
		"no audience":               {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("aud", []string{}))), "is not for the audience"},
		"expired":                   {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("exp", now.Add(-time.Second).Unix()))), "the token expired at"},
		"no expiry":                 {sign(t, jose.RS256, p.keys["first"], "first", p.claims(func(c map[string]any) { delete(c, "exp") })), `invalid claim \"exp\": the value is missing`},
		"not yet valid":             {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("nbf", now.Add(6*time.Minute).Unix()))), "the token is not valid before"},
		"unknown kid":               {sign(t, jose.RS256, stranger, "unknown", p.claims()), "failed to verify"},
		"huge":                      {good + strings.Repeat("A", maxBearer), "too long"},
		"two parts":                 {parts[0] + "." + parts[1], "neither an API token nor a JWT"},
		"five parts":                {good + ".a.b", "neither an API token nor a JWT"},
		"payload no base64":         {parts[0] + ".a+b." + parts[2], "payload of the JWT"},
		"payload no JSON":           {parts[0] + "." + part("{") + "." + parts[2], "payload of the JWT"},
		"header no JSON":            {part("{") + "." + parts[1] + "." + parts[2], "malformed jwt"},
		"claims no object":          {signText(t, jose.RS256, p.keys["first"], "first", []byte(`"`+p.url+`"`)), "payload of the JWT"},
		"no name":                   {sign(t, jose.RS256, p.keys["first"], "first", p.claims(func(c map[string]any) { delete(c, "sub") })), "is missing or is not a string"},
		"empty name":                {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("sub", ""))), "1 to 255 bytes"},
		"long name":                 {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("sub", strings.Repeat("a", 256)))), "1 to 255 bytes"},
		"name with a line end":      {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("sub", "a\nb"))), "invisible or invalid characters"},
		"name that turns around":    {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("sub", "a\u202eb"))), "invisible or invalid characters"},
		"name with a space":         {sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("sub", " alice"))), "invisible or invalid characters"},
		"lone surrogate":            {signText(t, jose.RS256, p.keys["first"], "first", []byte(strings.Replace(string(payload), "alice", `\ud800`, 1))), "invisible or invalid characters"},
		"no UTF-8":                  {signText(t, jose.RS256, p.keys["first"], "first", []byte(strings.Replace(string(payload), "alice", "\xff", 1))), "invalid UTF-8"},
		"JSON form":                 {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, "is not a well-formed token"},
	} {
		before := len(b.log.String())
		identity, err := b.Authenticate(with("Bearer " + c.token))
		require.Nil(t, identity, name)
		require.Equal(t, ErrInvalidCredentials, err, name)
		logged := b.log.String()[before:]
		require.Contains(t, logged, c.reason, name)
		require.NotContains(t, logged, c.token, name)
	}
	b.accepts(p.token("first"), "oidc:alice")
}

// settle waits until r is accepted or, if accepted is false, refused. Right after a fetch, the
// library can still return the previous result.
func (b *bench) settle(r *http.Request, accepted bool) {
	b.t.Helper()
	for range 10_000 {
		if _, err := b.Authenticate(r); (err == nil) == accepted {
			return
		}
		runtime.Gosched()
	}
	b.t.Fatalf("accepted: %v\n%s", !accepted, b.log)
}

func TestKeysAreFetchedWhenTheyAreRotated(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	b.accepts(p.token("first"), "oidc:alice")
	p.rotate("first", "second")
	b.refuses(p.token("second"), "failed to verify")
	require.Equal(t, 1, p.times("/keys"), "invented key ids cause no fetch")
	p.clock.add(keysEvery)
	b.settle(p.token("second"), true)
	b.accepts(p.token("first"), "oidc:alice")
	require.Equal(t, 2, p.times("/keys"))
	p.rotate("second", "third")
	p.clock.add(keysEvery)
	b.settle(p.token("third"), true)
	b.settle(p.token("first"), false)
}

// wait waits for the discovery in progress, if any.
func (i *issuer) wait() {
	i.mu.Lock()
	asking := i.discovering
	i.mu.Unlock()
	if asking != nil {
		<-asking
	}
}

func TestAWithdrawnKeyIsForgotten(t *testing.T) {
	p := newProvider(t)
	p.rotate("first", "stolen")
	b := p.trusting()
	b.accepts(p.token("stolen"), "oidc:alice")
	p.rotate("first")
	p.clock.add(discoveryInterval)
	b.accepts(p.token("stolen"), "oidc:alice") // this request triggers another fetch
	b.issuers[0].wait()
	b.refuses(p.token("stolen"), "failed to verify")
	b.accepts(p.token("first"), "oidc:alice")
	require.Equal(t, 2, p.times(discoverySuffix))
}

func TestAnIssuerThatIsDown(t *testing.T) {
	p := newProvider(t)
	p.setDown(true)
	b := p.trusting()
	made := b.token("one")
	b.refuses(p.token("first"), "cannot be fetched")
	require.Contains(t, b.log.String(), "level=WARN")
	b.accepts(with("Bearer "+made.Text), "one")
	b.refuses(p.token("first"), "cannot be fetched")
	require.Equal(t, 1, p.times(discoverySuffix), "the issuer is not asked again before the pause is over")
	p.clock.add(minBackoff)
	b.refuses(p.token("first"), "cannot be fetched")
	p.setDown(false)
	p.clock.add(minBackoff)
	b.refuses(p.token("first"), "cannot be fetched") // not fetched again yet: the backoff has doubled
	require.Equal(t, 2, p.times(discoverySuffix))
	p.clock.add(minBackoff)
	b.accepts(p.token("first"), "oidc:alice")
	require.Equal(t, 3, p.times(discoverySuffix))

	// The provider is down again. The known keys stay valid for a day.
	p.setDown(true)
	for range 23 {
		p.clock.add(time.Hour)
		b.accepts(p.token("first"), "oidc:alice")
		b.issuers[0].wait()
	}
	b.issuers[0].mu.Lock()
	require.Equal(t, maxBackoff, b.issuers[0].backoff)
	b.issuers[0].mu.Unlock()
	p.clock.add(time.Hour)
	b.refuses(p.token("first"), "cannot be fetched")
	p.setDown(false)
	p.clock.add(maxBackoff)
	b.accepts(p.token("first"), "oidc:alice")
}

// Concurrent requests share one fetch. Cancelling one of the requests does not cancel the fetch.
func TestOneQuestionForAll(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	asked, goOn := make(chan struct{}), make(chan struct{})
	p.setAnswer(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-goOn
		p.answer = nil // safe because ServeHTTP holds mu
		p.write(w, map[string]any{"issuer": p.url, "jwks_uri": p.url + "/keys"})
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := b.Authenticate(p.token("first").WithContext(ctx))
		left <- err
	}()
	<-asked
	leave()
	require.Equal(t, ErrInvalidCredentials, <-left)
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			if identity, err := b.Authenticate(p.token("first")); err != nil || identity.Actor != "oidc:alice" {
				t.Error(err)
			}
		})
	}
	close(goOn)
	wait.Wait()
	require.Equal(t, 1, p.times(discoverySuffix))
}

func TestWhatAnIssuerMayNotAnswer(t *testing.T) {
	p := newProvider(t)
	for reason, answer := range map[string]http.HandlerFunc{
		"302 Found": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"did not match the issuer": func(w http.ResponseWriter, _ *http.Request) {
			p.write(w, map[string]any{"issuer": p.url + "/", "jwks_uri": p.url + "/keys"})
		},
		"unexpected end of JSON": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"` + strings.Repeat("a", maxIssuerAnswer)))
		},
		"is not an https URL": func(w http.ResponseWriter, _ *http.Request) {
			p.write(w, map[string]any{"issuer": p.url, "jwks_uri": "http://keys.example/keys"})
		},
	} {
		p.setAnswer(answer)
		b := p.trusting()
		_, err := b.Authenticate(p.token("first"))
		require.Equal(t, ErrInvalidCredentials, err)
		require.Contains(t, b.log.String(), reason)
		require.Less(t, len(b.log.String()), 2000)
	}
	require.Zero(t, p.times("/elsewhere"))
}

func TestAnIssuerThatCannotBeReached(t *testing.T) {
	p := newProvider(t)
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	b := p.trusting(func(o *IssuerRule) { o.Issuer = url })
	b.refuses(p.token("first", set("iss", url)), "cannot be fetched")
	require.Contains(t, b.log.String(), "connection refused")
}

func TestActorsOfSeveralIssuers(t *testing.T) {
	p, q := newProvider(t), newProvider(t)
	named := func(p *provider, name, claim string) IssuerRule {
		return p.rules(func(o *IssuerRule) { o.Name, o.NameClaim = name, claim }).OIDC[0]
	}
	b := open(t, Rules{OIDC: []IssuerRule{named(p, "p", ""), named(q, "q", "email")}})
	b.accepts(p.token("first"), "oidc:p:alice")
	b.accepts(q.token("first", set("email", "alice@example.org")), "oidc:q:alice@example.org")
	b.refuses(p.token("first", set("iss", q.url)), "failed to verify")
	b.refuses(q.token("first"), "is missing or is not a string")
	b.refuses(q.token("first", set("email", []string{"a"})), "is missing or is not a string")
}

func TestCloseEndsQuestions(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	b.Close()
	b.refuses(p.token("first"), "cannot be fetched")
	require.Contains(t, b.log.String(), "context canceled")
	require.Zero(t, p.times(discoverySuffix))
}

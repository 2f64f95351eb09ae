package access

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"colophon/internal/testing/locked"
)

// answerKeys makes the provider answer requests for its keys with the result of calling text.
func (p *provider) answerKeys(text func() []byte) {
	p.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == discoverySuffix {
			p.write(w, map[string]any{"issuer": p.url, "jwks_uri": p.url + "/keys"})
			return
		}
		_, _ = w.Write(text()) // the client notices if the write fails
	})
}

func keySet(t *testing.T, keys ...any) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{"keys": keys})
	require.NoError(t, err)
	return text
}

// A token is accepted only if it is signed with one of the issuer's keys, that key is strong
// enough, and its type matches the algorithm. Keys inside the token are ignored.
func TestKeysAreNotConfused(t *testing.T) {
	p := newProvider(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	good := p.keys["first"]
	secret := []byte(strings.Repeat("s", 32))
	text := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	huge := new(big.Int).Lsh(big.NewInt(1), 400_000)
	p.answerKeys(func() []byte {
		return keySet(t,
			jose.JSONWebKey{Key: stranger.Public(), KeyID: "twice"},
			jose.JSONWebKey{Key: good.Public(), KeyID: "twice"},
			jose.JSONWebKey{Key: curve.Public(), KeyID: "curve"},
			jose.JSONWebKey{Key: edwards.Public(), KeyID: "edwards"},
			jose.JSONWebKey{Key: weak.Public(), KeyID: "weak"},
			jose.JSONWebKey{Key: secret, KeyID: "secret"},
			jose.JSONWebKey{Key: stranger, KeyID: "private"},
			jose.JSONWebKey{Key: good.Public(), KeyID: "for encryption", Use: "enc"},
			map[string]any{"kty": "RSA", "kid": "512", "n": text(new(big.Int).Lsh(big.NewInt(3), 510)), "e": "AQAB"},
			map[string]any{"kty": "RSA", "kid": "huge", "n": text(huge.Add(huge, big.NewInt(1))), "e": "AQAB"},
			map[string]any{"kty": "RSA", "kid": "exponent", "n": text(good.N), "e": text(new(big.Int).Lsh(big.NewInt(1), 4000))},
			map[string]any{"kty": "RSA", "kid": "one", "n": text(good.N), "e": "AQ"},
			map[string]any{"kty": "EC", "kid": "bent", "crv": "P-256", "x": "AA", "y": "AA"},
			map[string]any{"kty": "what", "kid": "what"},
			"no key", nil,
		)
	})
	b := p.trusting()
	for name, token := range map[string]string{
		"the second of one id": sign(t, jose.RS256, good, "twice", p.claims()),
		"no id":                sign(t, jose.PS256, good, "", p.claims()),
		"EC":                   sign(t, jose.ES256, curve, "curve", p.claims()),
		"Ed25519":              sign(t, jose.EdDSA, edwards, "edwards", p.claims()),
		"another party":        sign(t, jose.RS256, good, "twice", p.claims(set("azp", "other"))), // azp is ignored; see docs/operations.md
	} {
		_, err := b.Authenticate(with("Bearer " + token))
		require.NoError(t, err, "%s: %s", name, b.log)
	}
	brings := func(header string, value any) string {
		options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "twice").WithHeader(jose.HeaderKey(header), value)
		evil, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		if header == "jwk" {
			options = options.WithHeader("jwk", jose.JSONWebKey{Key: evil.Public(), KeyID: "twice"})
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: evil}, options)
		require.NoError(t, err)
		payload, err := json.Marshal(p.claims())
		require.NoError(t, err)
		signed, err := signer.Sign(payload)
		require.NoError(t, err)
		text, err := signed.CompactSerialize()
		require.NoError(t, err)
		return text
	}
	for name, token := range map[string]string{
		"weak":                 sign(t, jose.RS256, weak, "weak", p.claims()),
		"weak, without id":     sign(t, jose.RS256, weak, "", p.claims()),
		"secret":               sign(t, jose.HS256, secret, "secret", p.claims()),
		"private":              sign(t, jose.RS256, stranger, "private", p.claims()),
		"for encryption":       sign(t, jose.RS256, good, "for encryption", p.claims()),
		"exponent":             sign(t, jose.RS256, good, "exponent", p.claims()),
		"RS256 with an EC id":  sign(t, jose.RS256, good, "curve", p.claims()),
		"ES256 with an RSA id": sign(t, jose.ES256, curve, "twice", p.claims()),
		"EdDSA with an EC id":  sign(t, jose.EdDSA, edwards, "curve", p.claims()),
		"jwk":                  brings("jwk", nil),
		"jku":                  brings("jku", p.url+"/evil"),
		"x5u":                  brings("x5u", p.url+"/evil"),
		"id that is a path":    sign(t, jose.RS256, stranger, "../../evil", p.claims()),
		"id that is a URL":     sign(t, jose.RS256, stranger, p.url+"/evil", p.claims()),
		"long id":              sign(t, jose.RS256, stranger, strings.Repeat("k", 8000), p.claims()),
	} {
		_, err := b.Authenticate(with("Bearer " + token))
		require.Equal(t, ErrInvalidCredentials, err, name)
	}
	require.Zero(t, p.times("/evil"))
	require.Equal(t, 1, p.times("/keys"))

	all, err := usableKeys(strings.NewReader(string(p.keysText(t))))
	require.NoError(t, err)
	var kept jose.JSONWebKeySet
	require.NoError(t, json.Unmarshal(all, &kept))
	ids := make([]string, len(kept.Keys))
	for i, key := range kept.Keys {
		ids[i] = key.KeyID
	}
	require.Equal(t, []string{"twice", "twice", "curve", "edwards"}, ids)
}

// keysText returns the provider's response to a request for its keys.
func (p *provider) keysText(t *testing.T) []byte {
	t.Helper()
	recorder := httptest.NewRecorder()
	p.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/keys", nil))
	return recorder.Body.Bytes()
}

// Key sets that have too many keys, are too long, or are malformed are refused, and the log stays
// short.
func TestUnusableKeySetsAreRefused(t *testing.T) {
	p := newProvider(t)
	one, err := json.Marshal(jose.JSONWebKey{Key: p.keys["first"].Public(), KeyID: "first"})
	require.NoError(t, err)
	many := func(n int) []byte {
		return []byte(`{"keys":[` + string(one) + strings.Repeat(","+string(one), n-1) + `]}`)
	}
	for name, c := range map[string]struct {
		keys   []byte
		reason string
	}{
		"too many":     {many(maxKeys + 1), "the limit is 100"},
		"too long":     {[]byte(`{"keys":[],"x":"` + strings.Repeat("x", maxIssuerAnswer) + `"}`), "unexpected end of JSON"},
		"no JSON":      {[]byte(strings.Repeat("x", maxIssuerAnswer/2)), "invalid character"},
		"no set":       {[]byte(`[]`), "cannot unmarshal"},
		"no list":      {[]byte(`{"keys":{}}`), "cannot unmarshal"},
		"an HTML page": {[]byte(`<!doctype html>`), "invalid character"},
	} {
		p.answerKeys(func() []byte { return c.keys })
		b := p.trusting()
		_, err := b.Authenticate(p.token("first"))
		require.Equal(t, ErrInvalidCredentials, err, name)
		require.Contains(t, b.log.String(), c.reason, name)
		require.Less(t, len(b.log.String()), 2000, name)
	}
	p.answerKeys(func() []byte { return many(maxKeys) })
	p.trusting().accepts(p.token("first"), "oidc:alice")
}

// If an issuer's keys cannot be fetched, the previous keys stay valid.
func TestKeysOfBeforeStay(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	b.accepts(p.token("first"), "oidc:alice")
	p.answerKeys(func() []byte { return []byte("down") })
	p.clock.add(discoveryInterval)
	for range 3 {
		b.accepts(p.token("first"), "oidc:alice")
		b.issuers[0].wait()
		p.clock.add(maxBackoff)
	}
	require.Equal(t, 4, p.times(discoverySuffix))
	p.setAnswer(nil)
	p.rotate("second")
	b.accepts(p.token("first"), "oidc:alice") // this request triggers another fetch
	b.issuers[0].wait()
	b.refuses(p.token("first"), "failed to verify")
	b.accepts(p.token("second"), "oidc:alice")
}

// Many tokens with unknown key IDs trigger only one fetch of the keys.
func TestAStormOfUnknownKeys(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	b.accepts(p.token("first"), "oidc:alice")
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p.clock.add(keysEvery)
	var wait sync.WaitGroup
	for n := range 50 {
		token := "Bearer " + sign(t, jose.RS256, stranger, fmt.Sprint("unknown", n), p.claims())
		wait.Go(func() {
			if _, err := b.Authenticate(with(token)); err != ErrInvalidCredentials {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.Equal(t, 2, p.times("/keys"))
	b.accepts(p.token("first"), "oidc:alice")
}

// While an issuer hangs, the server still checks tokens that are signed with known keys, and all
// other credentials. A response that never ends is abandoned.
func TestAnIssuerThatHangs(t *testing.T) {
	p := newProvider(t)
	var hangs atomic.Pointer[hanging]
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := hangs.Load()
		if h == nil || h.path != r.URL.Path {
			p.ServeHTTP(w, r)
			return
		}
		h.drip(w, r)
	}))
	t.Cleanup(slow.Close)
	p.url = slow.URL // makes the discovery document point to this URL, too
	other := newProvider(t)
	other.clock = p.clock
	rules := Rules{OIDC: append(p.rules(func(o *IssuerRule) { o.Name = "p" }).OIDC, other.rules(func(o *IssuerRule) { o.Name = "q" }).OIDC...)}
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for _, path := range []string{discoverySuffix, "/keys"} {
		b := &bench{t: t, clock: p.clock, log: new(locked.Buffer), store: TokenStore{Dir: t.TempDir() + "/access", Now: p.clock.now}}
		b.reopen(rules)
		made := b.token("one")
		request := p.token("first")
		if path == "/keys" { // once the keys are cached, only an unknown key ID makes the server fetch them
			b.accepts(request, "oidc:p:alice")
			p.clock.add(keysEvery)
			request = with("Bearer " + sign(t, jose.RS256, stranger, "unknown", p.claims()))
		}
		h := &hanging{path: path, asked: make(chan struct{}, 8), ends: make(chan struct{})}
		hangs.Store(h)
		given := make(chan error, 1)
		b.issuers[0].timeout = time.Hour
		go func() {
			for { // repeated, because the library can briefly return the previous result
				_, err := b.Authenticate(request)
				select {
				case <-h.ends:
					given <- err
					return
				default:
				}
			}
		}()
		<-h.asked
		b.accepts(with("Bearer "+made.Text), "one")
		b.accepts(other.token("first"), "oidc:q:alice")
		if path == "/keys" {
			b.accepts(p.token("first"), "oidc:p:alice")
		}
		close(h.ends)
		require.Equal(t, ErrInvalidCredentials, <-given)

		h = &hanging{path: path, asked: h.asked, ends: make(chan struct{})}
		hangs.Store(h)
		t.Cleanup(func() { close(h.ends) })

		p.clock.add(discoveryInterval)
		b = &bench{t: t, clock: p.clock, log: new(locked.Buffer), store: b.store}
		b.reopen(rules)
		b.issuers[0].timeout = 50 * time.Millisecond
		b.refuses(p.token("first"), "cannot be fetched")
		require.Regexp(t, "Client.Timeout|deadline exceeded", b.log.String())
		hangs.Store(nil)
	}
}

// hanging describes a path whose responses do not end until the channel ends is closed.
type hanging struct {
	path  string
	asked chan struct{}
	ends  chan struct{}
}

func (h *hanging) drip(w http.ResponseWriter, r *http.Request) {
	h.asked <- struct{}{}
	for {
		if _, err := w.Write([]byte(" ")); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-h.ends:
			return
		case <-r.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// Keys are fetched over https. Only an issuer on the same machine may use http.
func TestKeysComeBySafeWays(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++; _, _ = w.Write([]byte(`{"keys":[]}`)) }))
	defer server.Close()
	_, err := newIssuerClient("https://id.example.org", issuerTimeout, time.Now).Get(server.URL + "/keys")
	require.ErrorContains(t, err, "is not an https URL")
	require.Zero(t, asked, "the client for a remote issuer has sent a request to this machine")
	response, err := newIssuerClient("http://127.0.0.1:1", issuerTimeout, time.Now).Get(server.URL + "/keys")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 1, asked)
}

// After the server's clock jumps, tokens are checked against the new time, and the server still
// asks the issuer for its keys.
func TestClocksThatJump(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	early := p.token("first")
	b.accepts(early, "oidc:alice")
	p.clock.add(2 * time.Hour)
	b.refuses(early, "expired")
	b.accepts(p.token("first"), "oidc:alice")
	b.issuers[0].wait()
	p.clock.add(-48 * time.Hour)
	b.accepts(early, "oidc:alice")
	b.refuses(p.token("first", set("nbf", p.clock.now().Add(time.Hour).Unix())), "the token is not valid before")
	b.accepts(p.token("first", set("iat", p.clock.now().Add(1000*time.Hour).Unix())), "oidc:alice") // iat is not checked
	p.clock.add(49 * time.Hour)
	b.accepts(p.token("first", set("iss", p.url)), "oidc:alice")
	for _, exp := range []any{1e308, -1, "2030-01-01", "9999999999", nil, true, []int{1}, json.Number("1e400")} {
		_, err := b.Authenticate(p.token("first", set("exp", exp)))
		require.Equal(t, ErrInvalidCredentials, err, "%v", exp)
	}
}

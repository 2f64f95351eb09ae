package access

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// issuerTimeout is the time limit for a request to an issuer, including reading the response.
	issuerTimeout = 10 * time.Second
	// maxIssuerAnswer is the maximum length of a response, in bytes.
	maxIssuerAnswer = 1 << 20
	// keysEvery is the minimum time between two fetches of an issuer's keys. Without this limit,
	// anyone could trigger fetches by sending tokens that name unknown keys.
	keysEvery = 10 * time.Second
)

// discoverySuffix is the end of the URL of every discovery document.
const discoverySuffix = "/.well-known/openid-configuration"

// newIssuerClient returns an HTTP client for one discovery and the key fetches that follow it.
// timeout applies to each request, including reading the response.
func newIssuerClient(issuer string, timeout time.Duration, now func() time.Time) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Timeout:   timeout,
		Transport: &issuerTransport{next: transport, now: now, plain: strings.HasPrefix(issuer, "http://")},
		// Redirects are not followed, because their target could use plain HTTP.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// issuerTransport refuses plain HTTP, limits the rate of key fetches and the length of
// responses, and removes unusable keys from a response.
type issuerTransport struct {
	next  http.RoundTripper
	now   func() time.Time
	plain bool // true if the issuer runs on this machine and uses plain HTTP

	mu      sync.Mutex // guards fetched
	fetched time.Time  // time of the last key fetch; zero if there was none
}

// RoundTrip implements http.RoundTripper.
func (t *issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !(t.plain && local(r.URL)) {
		return nil, fmt.Errorf("%s is not an https URL", r.URL)
	}
	forKeys := !strings.HasSuffix(r.URL.Path, discoverySuffix)
	if forKeys && !t.mayFetch() {
		return nil, errors.New("the keys were fetched less than 10 seconds ago, so they are not fetched again yet")
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answered with status %s", r.URL, response.Status), response.Body.Close())
	}
	response.Body = &boundedBody{io.LimitReader(response.Body, maxIssuerAnswer), response.Body}
	if !forKeys {
		return response, nil
	}
	keys, err := usableKeys(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the keys at %s: %w", r.URL, err)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(keys)), int64(len(keys))
	return response, nil
}

// Limits on the keys of an issuer. The number of keys is limited because a token without a key ID
// is checked against every key.
const (
	maxKeys    = 100
	minRSABits = 2048 // RFC 7518, section 3.3
	maxRSABits = 8192
)

// usableKeys parses a JSON Web Key Set and returns an encoded set that contains only the usable
// public keys.
func usableKeys(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, but the limit is %d", len(set.Keys), maxKeys)
	}
	usable := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, one := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(one, &key) == nil && (key.Use == "" || key.Use == "sig") && usableKey(key.Key) {
			usable.Keys = append(usable.Keys, jose.JSONWebKey{Key: key.Key, KeyID: key.KeyID, Algorithm: key.Algorithm})
		}
	}
	return json.Marshal(usable)
}

// usableKey reports whether key is a public key that is neither too weak nor too expensive to
// verify with.
func usableKey(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		bits := key.N.BitLen()
		return bits >= minRSABits && bits <= maxRSABits && key.E >= 3 && key.E <= math.MaxInt32
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// mayFetch reports whether the keys may be fetched now. If so, it records the current time as the
// time of the last fetch.
func (t *issuerTransport) mayFetch() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !t.fetched.IsZero() && now.Sub(t.fetched) < keysEvery {
		return false
	}
	t.fetched = now
	return true
}

// boundedBody is a response body of limited length. If the limit cuts off a JSON document, the
// document is invalid, so it is never used.
type boundedBody struct {
	io.Reader
	io.Closer
}

package access

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// issuerTimeout bounds a question to an issuer, its answer included.
	issuerTimeout = 10 * time.Second
	// maxIssuerAnswer bounds an answer, in bytes.
	maxIssuerAnswer = 1 << 20
	// keysEvery is how often keys are fetched at most. Anybody can send tokens that
	// claim an unknown key, and each would have them fetched.
	keysEvery = 10 * time.Second
)

// discoverySuffix ends the URL of a discovery document.
const discoverySuffix = "/.well-known/openid-configuration"

// newIssuerClient is for one discovery and the keys that it leads to.
func newIssuerClient(now func() time.Time) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Timeout:   issuerTimeout,
		Transport: &issuerTransport{next: transport, now: now},
		// Nobody is to be sent elsewhere, over http say.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// issuerTransport bounds what an issuer is asked and what it may answer.
type issuerTransport struct {
	next http.RoundTripper
	now  func() time.Time

	mu      sync.Mutex // guards fetched
	fetched time.Time  // when keys were asked for last; zero: not yet
}

// RoundTrip implements http.RoundTripper.
func (t *issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !local(r.URL) {
		return nil, fmt.Errorf("%s is no https URL", r.URL)
	}
	if !strings.HasSuffix(r.URL.Path, discoverySuffix) && !t.mayFetch() {
		return nil, errors.New("the keys were fetched a moment ago")
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answers %s", r.URL, response.Status), response.Body.Close())
	}
	response.Body = &boundedBody{io.LimitReader(response.Body, maxIssuerAnswer), response.Body}
	return response, nil
}

// mayFetch reports whether keys may be fetched now, and counts it.
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

// boundedBody is the beginning of a body; more makes no sense as JSON.
type boundedBody struct {
	io.Reader
	io.Closer
}

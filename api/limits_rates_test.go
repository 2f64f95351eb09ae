package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/ledger"
)

// negligibleRate is a rate that is so low that an empty bucket stays empty.
const negligibleRate = 1e-9

// trustingProxies returns a change to the configuration that applies rates to the server's limits and makes
// the server trust proxies in 127.0.0.0/8 and 10.0.0.0/8.
func trustingProxies(rates func(*limits.ServerLimits)) func(*Config) {
	return func(c *Config) {
		rates(&c.ServerLimits)
		c.ServerLimits.TrustedProxies = trusted("127.0.0.0/8", "10.0.0.0/8")
	}
}

func (s *service) refusals(why limits.RefusalReason) float64 {
	s.t.Helper()
	count, _ := s.metrics().value("colophon_refusals_total", "reason", string(why))
	return count
}

// A client that sends too many requests gets 429 with a Retry-After header. Other clients are not
// affected.
func TestRateOfAnIdentity(t *testing.T) {
	s := start(t, trustingProxies(func(l *limits.ServerLimits) { l.RequestRate = negligibleRate }))
	s.get("/stats", "X-Forwarded-For", "192.0.2.1").want(http.StatusOK)
	refused := s.get("/stats", "X-Forwarded-For", "192.0.2.1")
	require.Contains(t, refused.problem(http.StatusTooManyRequests).Detail, "too many requests")
	wait, err := strconv.Atoi(refused.header.Get("Retry-After"))
	require.NoError(t, err)
	require.Greater(t, wait, 1)
	s.get("/stats", "X-Forwarded-For", "192.0.2.2").want(http.StatusOK)
	require.EqualValues(t, 1, s.refusals(limits.ReasonRate))
}

// The rate limit of an address applies to the requests of all its identities combined. If a trusted
// proxy has forwarded a request, the address of the proxy's client counts. For IPv6, a /64 counts
// as one address.
func TestRateOfAnAddress(t *testing.T) {
	s := start(t, trustingProxies(func(l *limits.ServerLimits) { l.AddressRate = negligibleRate }))
	seen := func(forwarded string) int { return s.get(s.http.URL+"/version", "X-Forwarded-For", forwarded).status }
	require.Equal(t, http.StatusOK, seen("192.0.2.1"))
	require.Equal(t, http.StatusTooManyRequests, seen("192.0.2.1"))
	require.Equal(t, http.StatusTooManyRequests, seen("198.51.100.7, 192.0.2.1"), "an address that the client itself names is ignored")
	require.Equal(t, http.StatusTooManyRequests, seen("192.0.2.1, 10.1.1.1"), "two proxies")
	require.Equal(t, http.StatusTooManyRequests, seen("::ffff:192.0.2.1"))
	require.Equal(t, http.StatusOK, seen("2001:db8:1:1::1"))
	require.Equal(t, http.StatusTooManyRequests, seen("2001:db8:1:1:ffff::2"))
	require.Equal(t, http.StatusOK, seen("2001:db8:1:2::1"))
	require.Equal(t, http.StatusOK, seen("not an address"), "without a valid address, the proxy's address is used")
	require.Equal(t, http.StatusTooManyRequests, seen("not an address either"))
	s.get(s.http.URL + "/healthz").want(http.StatusOK)
	require.EqualValues(t, 6, s.refusals(limits.ReasonAddressRate))

	direct := start(t, func(c *Config) { c.ServerLimits.AddressRate = negligibleRate })
	direct.get(direct.http.URL+"/version", "X-Forwarded-For", "192.0.2.1").want(http.StatusOK)
	direct.get(direct.http.URL+"/version", "X-Forwarded-For", "192.0.2.2").problem(http.StatusTooManyRequests)
}

// An address that sends too many invalid credentials gets 429 for further ones. Valid credentials
// are accepted even from that address, and other addresses are not affected.
func TestFailedAuthentications(t *testing.T) {
	store := access.TokenStore{Dir: filepath.Join(t.TempDir(), "access"), Now: time.Now}
	made, err := store.Create(access.TokenSpec{Name: "reader", Grants: []access.Grant{{Ledgers: []string{access.AllLedgers}, Scopes: access.AllScopes}}})
	require.NoError(t, err)
	who, err := access.Open(access.Config{Dir: store.Dir})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	s := start(t, trustingProxies(func(l *limits.ServerLimits) { l.AuthFailureRate = negligibleRate }), func(c *Config) { c.Authenticator = who })
	ask := func(address, token string) answer {
		return s.get("/stats", "X-Forwarded-For", address, "Authorization", "Bearer "+token)
	}
	for range limits.AuthFailureBurst {
		ask("192.0.2.1", "wrong").problem(http.StatusUnauthorized)
	}
	for range 2 * limits.AuthFailureBurst {
		require.NotEmpty(t, ask("192.0.2.1", "wrong").want(http.StatusTooManyRequests).header.Get("Retry-After"))
		ask("192.0.2.1", made.Text).want(http.StatusOK)
		s.get("/stats", "X-Forwarded-For", "192.0.2.1").problem(http.StatusUnauthorized) // missing credentials do not count as invalid ones
	}
	require.EqualValues(t, 2*limits.AuthFailureBurst, counterOf(t, s, limits.ReasonAuthFailures))
	ask("192.0.2.2", "wrong").problem(http.StatusUnauthorized)
}

// After an address has sent too many invalid signatures, its signatures are no longer verified. API
// tokens from that address are still accepted, and other addresses are not affected.
func TestFailedSignatures(t *testing.T) {
	i := newIssuer(t)
	store := access.TokenStore{Dir: filepath.Join(t.TempDir(), "access"), Now: time.Now}
	all := []string{access.AllLedgers}
	made, err := store.Create(access.TokenSpec{Name: "reader", Grants: []access.Grant{{Ledgers: all, Scopes: access.AllScopes}}})
	require.NoError(t, err)
	rules := access.Rules{OIDC: []access.IssuerRule{{Issuer: i.url, Audience: "colophon",
		ClaimRules: []access.ClaimRule{{Claim: "group", Value: "staff", Ledgers: all, Scopes: scopeNames}}}}}
	who, err := access.Open(access.Config{Dir: store.Dir, Rules: rules})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	s := start(t, trustingProxies(func(l *limits.ServerLimits) { l.AuthFailureRate = negligibleRate }), func(c *Config) { c.Authenticator = who })
	ask := func(address, token string) answer {
		return s.get("/stats", "X-Forwarded-For", address, "Authorization", "Bearer "+token)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	good, forged := i.token(jose.ES256, i.key, i.claims("staff")), i.token(jose.ES256, stranger, i.claims("staff"))
	expired := i.claims("staff")
	expired["exp"] = time.Now().Add(-time.Hour).Unix()
	old := i.token(jose.ES256, i.key, expired)

	for range limits.AuthFailureBurst {
		ask("192.0.2.1", old).problem(http.StatusUnauthorized)
	}
	ask("192.0.2.1", old).problem(http.StatusTooManyRequests)
	ask("192.0.2.1", good).want(http.StatusOK) // none of the signatures so far was invalid
	for range limits.AuthFailureBurst {
		ask("192.0.2.2", forged).problem(http.StatusUnauthorized)
	}
	require.NotEmpty(t, ask("192.0.2.2", forged).want(http.StatusTooManyRequests).header.Get("Retry-After"))
	ask("192.0.2.2", good).problem(http.StatusTooManyRequests)
	ask("192.0.2.2", made.Text).want(http.StatusOK)
	ask("192.0.2.3", good).want(http.StatusOK)
	require.EqualValues(t, 3, counterOf(t, s, limits.ReasonAuthFailures))
}

// counterOf returns the number of refusals for the given reason. It works even if /metrics requires
// credentials.
func counterOf(t *testing.T, s *service, why limits.RefusalReason) float64 {
	t.Helper()
	answer := httptest.NewRecorder()
	s.server().config.Metrics.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	count, _ := parseMetrics(t, answer.Body).value("colophon_refusals_total", "reason", string(why))
	return count
}

// Batch lines wait for tokens from a separate bucket, so that they do not use up the tokens of
// single requests.
func TestLinesOfABatchWait(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.RequestRate = 0.5 }) // not lower, because the end of the test waits for the last line's token
	body, send := io.Pipe()
	defer send.Close()
	request, err := http.NewRequest(http.MethodPost, s.url+"/batch", body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", call.NDJSONMediaType)
	response, err := http.DefaultClient.Do(request) // the only request that the rate limit allows
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.WriteString(send, ipcLine("a", "1")+ipcLine("b", "2"))
	require.NoError(t, err)
	first := make([]byte, 1)
	_, err = response.Body.Read(first)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.size(), "one line is recorded, and the next one waits")
	s.get("/stats").problem(http.StatusTooManyRequests)
}

// Caller returns the actor of a request. For an anonymous request it returns a name that no actor
// can have.
func TestCallers(t *testing.T) {
	s := start(t)
	for _, remote := range []string{"192.0.2.1:1", "[2001:db8::1%eth0]:1", "nonsense"} {
		c := contextFrom(s, remote)
		name := c.LimitKey()
		require.NotRegexp(t, `^([a-z0-9][a-z0-9._-]{0,63}|oidc:.*|mtls:.*)$`, name)
		c.SetIdentity(&access.Identity{Actor: "writer"})
		require.Equal(t, "writer", c.LimitKey())
		c.SetIdentity(&access.Identity{Actor: ledger.AnonymousActor})
		require.Equal(t, name, c.LimitKey())
	}
	require.Equal(t, netip.MustParsePrefix("2001:db8::/64"), contextFrom(s, "[2001:db8::1%eth0]:1").ClientAddress())
}

// If an address sends too many bad requests, the responses to them are delayed. The responses to
// its other requests are not delayed, even if they are 404s.
func TestAnswersToBadRequestsAreHeld(t *testing.T) {
	s := start(t, func(c *Config) {
		c.ServerLimits.BadRequestRate, c.ServerLimits.MaxBadRequestDelay = negligibleRate, time.Hour
	})
	s.post("/ipc-records", "{").problem(http.StatusBadRequest)
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/records?limit=x", nil)
		if err == nil {
			var response *http.Response
			if response, err = s.http.Client().Do(r); err == nil {
				err = response.Body.Close()
			}
		}
		held <- err
	}()
	for range 20 {
		s.get("/records").want(http.StatusOK)
		s.get("/records/99").problem(http.StatusNotFound)
	}
	require.Empty(t, held)
	cancel()
	require.ErrorIs(t, <-held, context.Canceled)
}

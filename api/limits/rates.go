package limits

import (
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"
)

// rates holds the token buckets of recently seen identities and addresses. Buckets that have not
// been used recently are dropped. If they are needed again, they start full.
type rates struct {
	load ServerLimits

	mu         sync.Mutex // guards the fields below
	identities RecentMap[string, *identityRates]
	addresses  RecentMap[netip.Prefix, *addressRates]
}

// identityRates contains the token buckets of one identity. Batches wait for tokens, so their lines
// have a separate bucket. Otherwise, a batch could use up the tokens for single requests, which are
// refused if none is left.
type identityRates struct{ requests, lines *rate.Limiter }

// addressRates contains the token buckets of one address. Invalid signatures have a separate
// bucket, because verifying a signature costs far more than detecting any other failure.
type addressRates struct{ requests, failures, signatures, bad *rate.Limiter }

// remembered is the limit of the RecentMaps of identities and addresses.
const remembered = 1 << 14

// AuthFailureBurst is the number of invalid credentials, and of invalid signatures, that an
// address can send at once. It leaves room for a service with a wrong token that retries a few
// times.
const AuthFailureBurst = 20

func newRates(load ServerLimits) *rates {
	return &rates{load: load, identities: NewRecentMap[string, *identityRates](remembered),
		addresses: NewRecentMap[netip.Prefix, *addressRates](remembered)}
}

// limiter returns a full bucket for the given rate, where 0 means unlimited.
func (r *rates) limiter(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	burst := max(1, math.Ceil(perSecond*r.load.BurstDuration.Seconds()))
	return rate.NewLimiter(rate.Limit(perSecond), int(min(burst, math.MaxInt32)))
}

func (r *rates) identity(name string) *identityRates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.identities.GetOrAdd(name, func() *identityRates {
		return &identityRates{requests: r.limiter(r.load.RequestRate), lines: r.limiter(r.load.RequestRate)}
	})
}

func (r *rates) address(a netip.Prefix) *addressRates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addresses.GetOrAdd(a, func() *addressRates {
		failures := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(r.load.AuthFailureRate), AuthFailureBurst) }
		return &addressRates{requests: r.limiter(r.load.AddressRate), failures: failures(), signatures: failures(), bad: r.limiter(r.load.BadRequestRate)}
	})
}

// TakeAddressToken takes a request token from the bucket of an address. It returns a 429 RejectedError
// if the bucket is empty.
func (r *rates) TakeAddressToken(address func() netip.Prefix) error {
	if r.load.AddressRate == 0 {
		return nil
	}
	if wait := spend(r.address(address()).requests); wait > 0 {
		return NewRejectedError(ReasonAddressRate, http.StatusTooManyRequests, wait, "too many requests from this address: %g per second are allowed", r.load.AddressRate)
	}
	return nil
}

// TakeIdentityToken takes a request token from the bucket of an identity. It returns a 429 RejectedError
// if the bucket is empty.
func (r *rates) TakeIdentityToken(name func() string) error {
	if r.load.RequestRate == 0 {
		return nil
	}
	if wait := spend(r.identity(name()).requests); wait > 0 {
		return NewRejectedError(ReasonRate, http.StatusTooManyRequests, wait, "too many requests: %g per second are allowed", r.load.RequestRate)
	}
	return nil
}

// spend takes a token and returns 0. If no token is available, it takes none and returns the time
// until one becomes available.
func spend(l *rate.Limiter) time.Duration {
	now := time.Now()
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// LinesPerWait returns how many lines of a batch wait for their tokens together. This is the number
// of lines that the rate limit allows per second, or most if the rate limit allows more.
func (r *rates) LinesPerWait(most int) int {
	if perSecond := r.load.RequestRate; perSecond > 0 && perSecond < float64(most) {
		return max(1, int(perSecond))
	}
	return most
}

// WaitForLines waits until an identity has tokens for count lines of batches. If that is more than
// the burst, it takes the tokens in several steps. It calls progress after each step. It returns an
// error if ctx ends first.
func (r *rates) WaitForLines(ctx context.Context, name string, count int, progress func()) error {
	if r.load.RequestRate == 0 {
		return nil
	}
	limiter := r.identity(name).lines
	for count > 0 {
		n := min(count, limiter.Burst())
		if err := limiter.WaitN(ctx, n); err != nil {
			return err
		}
		progress()
		count -= n
	}
	return nil
}

// CheckLineDebt returns a 429 RejectedError if an identity still owes tokens for lines (see
// ChargeLines).
func (r *rates) CheckLineDebt(name string) error {
	if r.load.RequestRate == 0 {
		return nil
	}
	if wait := spend(r.identity(name).lines); wait > 0 {
		return NewRejectedError(ReasonRate, http.StatusTooManyRequests, wait, "too many records: %g per second are allowed", r.load.RequestRate)
	}
	return nil
}

// ChargeLines takes tokens for count lines that have already been recorded. If there are not enough
// tokens, it records a debt instead of waiting. A client that gave up waiting and repeated its
// request would otherwise have to wait for the tokens again, possibly forever.
func (r *rates) ChargeLines(name string, count int) {
	if r.load.RequestRate == 0 {
		return
	}
	limiter, now := r.identity(name).lines, time.Now()
	for count > 0 {
		n := min(count, limiter.Burst())
		limiter.ReserveN(now, n)
		count -= n
	}
}

// MayVerifySignature reports whether the server should verify a signature from address a. It returns
// false if too many signatures from that address were invalid.
func (r *rates) MayVerifySignature(a netip.Prefix) bool { return r.address(a).signatures.Tokens() >= 1 }

// CountFailure counts invalid credentials from an address. If verified is true, it also counts an
// invalid signature. It returns a 429 RejectedError if the address has sent too many.
func (r *rates) CountFailure(a netip.Prefix, verified bool) error {
	buckets := r.address(a)
	if verified {
		buckets.signatures.Allow()
	}
	return tooManyFailures(spend(buckets.failures))
}

// SignatureRefusal returns the 429 RejectedError for a signature that the server declines to
// verify.
func (r *rates) SignatureRefusal(a netip.Prefix) error {
	missing := max(0, 1-r.address(a).signatures.Tokens())
	return tooManyFailures(max(1, time.Duration(missing/r.load.AuthFailureRate*float64(time.Second))))
}

// tooManyFailures returns the 429 RejectedError for too many invalid credentials, or nil if wait is not
// positive.
func tooManyFailures(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return NewRejectedError(ReasonAuthFailures, http.StatusTooManyRequests, wait, "too many invalid credentials came from this address; try again later")
}

// DelayBadRequest delays the answer to a bad request if too many have come from its address. It
// does not delay other requests. The wait ends early when ctx is done.
func (r *rates) DelayBadRequest(ctx context.Context, address func() netip.Prefix, write bool) {
	if wait := r.holdBad(address(), write, time.Now()); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// badWrite is the number of tokens that a bad write takes, because the server has read and decoded
// its body. Other bad requests take one.
const badWrite = 5

// holdBad takes tokens for a bad request and returns how long to delay the answer to it.
func (r *rates) holdBad(a netip.Prefix, write bool, now time.Time) time.Duration {
	bucket, count := r.address(a).bad, 1
	if write {
		count = min(badWrite, bucket.Burst())
	}
	token := bucket.ReserveN(now, count)
	wait := token.DelayFrom(now)
	if wait > r.load.MaxBadRequestDelay {
		token.CancelAt(now) // so that concurrent bad requests wait at the same time, not one after the other
		return r.load.MaxBadRequestDelay
	}
	return wait
}

// AddressExtractor returns a function that finds the client address of a request, even if the
// request was forwarded by trusted proxies.
func AddressExtractor(trusted []*net.IPNet) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range trusted {
		options = append(options, echo.TrustIPRange(network))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// RecentMap is a map that keeps only recently used entries, at most 2*limit of them. Each time
// limit distinct entries have been used, it keeps only those and starts counting again.
type RecentMap[K comparable, V any] struct {
	limit int
	// CurrentEntries holds the entries used since the counting last started, and previous those used in
	// the round before.
	CurrentEntries, previous map[K]V
}

func NewRecentMap[K comparable, V any](limit int) RecentMap[K, V] {
	return RecentMap[K, V]{limit: limit, CurrentEntries: make(map[K]V)}
}

// GetOrAdd returns the value for key, after adding the result of make if there was none.
func (g *RecentMap[K, V]) GetOrAdd(key K, make func() V) V {
	value, found := g.CurrentEntries[key]
	if found {
		return value
	}
	if value, found = g.previous[key]; !found {
		value = make()
	}
	g.put(key, value)
	return value
}

func (g *RecentMap[K, V]) put(key K, value V) {
	if len(g.CurrentEntries) >= g.limit {
		g.previous, g.CurrentEntries = g.CurrentEntries, make(map[K]V)
	}
	g.CurrentEntries[key] = value
}

func (g *RecentMap[K, V]) Remove(key K) {
	delete(g.CurrentEntries, key)
	delete(g.previous, key)
}

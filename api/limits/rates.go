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

// rates are the token buckets of the identities and addresses that were seen of
// late. Those of an address that has not been seen for long, while many others have,
// are forgotten and begin full again.
type rates struct {
	load Load

	mu         sync.Mutex // guards what follows
	identities RecentMap[string, *identityRates]
	addresses  RecentMap[netip.Prefix, *addressRates]
}

// identityRates are those of one identity. Lines have a bucket of their own, so that
// a batch, which waits for its turn, takes none from requests, which do not.
type identityRates struct{ requests, lines *rate.Limiter }

// addressRates are those of one address. Signatures that do not hold have a bucket of
// their own: each costs far more than another failure.
type addressRates struct{ requests, failures, signatures *rate.Limiter }

// remembered bounds the identities, and the addresses, that are kept.
const remembered = 1 << 14

// FailureBurst is how many credentials that are not valid, and how many signatures, an
// address may send at once: a service that was given a wrong token tries again a few times.
const FailureBurst = 20

func newRates(load Load) *rates {
	return &rates{load: load, identities: NewRecentMap[string, *identityRates](remembered),
		addresses: NewRecentMap[netip.Prefix, *addressRates](remembered)}
}

// limiter has a full bucket; a rate of 0 means any number.
func (r *rates) limiter(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	burst := max(1, math.Ceil(perSecond*r.load.RateBurst.Seconds()))
	return rate.NewLimiter(rate.Limit(perSecond), int(min(burst, math.MaxInt32)))
}

func (r *rates) identity(name string) *identityRates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.identities.Get(name, func() *identityRates {
		return &identityRates{requests: r.limiter(r.load.RequestRate), lines: r.limiter(r.load.RequestRate)}
	})
}

func (r *rates) address(a netip.Prefix) *addressRates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addresses.Get(a, func() *addressRates {
		failures := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(r.load.FailureRate), FailureBurst) }
		return &addressRates{requests: r.limiter(r.load.AddressRate), failures: failures(), signatures: failures()}
	})
}

// CheckAddress is a refusal if an address makes too many requests.
func (r *rates) CheckAddress(address func() netip.Prefix) error {
	if r.load.AddressRate == 0 {
		return nil
	}
	if wait := spend(r.address(address()).requests); wait > 0 {
		return Refuse(RefusedAddressRate, http.StatusTooManyRequests, wait, "too many requests from this address: %g a second are allowed", r.load.AddressRate)
	}
	return nil
}

// CheckIdentity is a refusal if an identity makes too many requests.
func (r *rates) CheckIdentity(name func() string) error {
	if r.load.RequestRate == 0 {
		return nil
	}
	if wait := spend(r.identity(name()).requests); wait > 0 {
		return Refuse(RefusedRate, http.StatusTooManyRequests, wait, "too many requests: %g a second are allowed", r.load.RequestRate)
	}
	return nil
}

// spend takes a token, or says how long it will be until there is one.
func spend(l *rate.Limiter) time.Duration {
	now := time.Now()
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// LinesAtOnce is how many lines wait for their turn together, at most so many: those that
// may come in a second.
func (r *rates) LinesAtOnce(most int) int {
	if perSecond := r.load.RequestRate; perSecond > 0 && perSecond < float64(most) {
		return max(1, int(perSecond))
	}
	return most
}

// WaitForLines waits until an identity may bring so many more lines of batches, and calls
// progress now and then.
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

// MayVerify reports whether a signature from an address is to be verified: not if too
// many from there did not hold.
func (r *rates) MayVerify(a netip.Prefix) bool { return r.address(a).signatures.Tokens() >= 1 }

// CountFailure counts credentials that were not valid, and their signature if it was verified.
// It is a refusal if too many came from an address.
func (r *rates) CountFailure(a netip.Prefix, verified bool) error {
	buckets := r.address(a)
	if verified {
		buckets.signatures.Allow()
	}
	return guessing(spend(buckets.failures))
}

// SignatureRefusal is the refusal of a signature that is not verified.
func (r *rates) SignatureRefusal(a netip.Prefix) error {
	missing := max(0, 1-r.address(a).signatures.Tokens())
	return guessing(max(1, time.Duration(missing/r.load.FailureRate*float64(time.Second))))
}

// guessing is the refusal of credentials for some time; nil for none.
func guessing(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return Refuse(RefusedCredentials, http.StatusTooManyRequests, wait, "too many credentials that are not valid came from this address; try again later")
}

// AddressExtractor finds the address that a request comes from, past the proxies that are
// trusted to say so.
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

// RecentMap is a map of bounded size, of at most twice limit entries: when half of
// it is full, what was not asked for since it last was so is forgotten.
type RecentMap[K comparable, V any] struct {
	limit             int
	Current, previous map[K]V
}

func NewRecentMap[K comparable, V any](limit int) RecentMap[K, V] {
	return RecentMap[K, V]{limit: limit, Current: make(map[K]V)}
}

// Get is the value of a key, made if there is none.
func (g *RecentMap[K, V]) Get(key K, make func() V) V {
	value, found := g.Current[key]
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
	if len(g.Current) >= g.limit {
		g.previous, g.Current = g.Current, make(map[K]V)
	}
	g.Current[key] = value
}

func (g *RecentMap[K, V]) Remove(key K) {
	delete(g.Current, key)
	delete(g.previous, key)
}

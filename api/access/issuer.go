package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// discoveryInterval is the time after which the server fetches the issuer's keys again, so that
	// it no longer accepts a key that the issuer has withdrawn.
	discoveryInterval = time.Hour
	// keysValidFor is how long known keys stay valid while the issuer does not respond.
	keysValidFor = 24 * time.Hour
	// minBackoff is the pause after the first failed discovery. It doubles with every further
	// failure, up to maxBackoff.
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// algorithms lists the allowed signature algorithms. All are asymmetric: with a symmetric
// algorithm, anyone with the public key could sign.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

type issuer struct {
	config IssuerRule
	prefix string // prefix of the issuer's actor names: "oidc:" or "oidc:<name>:"
	rules  []claimRule
	log    *slog.Logger
	now    func() time.Time
	ctx    context.Context // cancels discoveries; requests have their own contexts
	// timeout limits each request to the issuer, including reading the response.
	timeout time.Duration

	mu           sync.Mutex            // guards the fields below; never held during I/O
	verifier     *oidc.IDTokenVerifier // nil until the first discovery
	tokenURL     string                // URL of the token endpoint; "" if unknown
	discoveredAt time.Time             // when the discovery that produced verifier began
	discovering  chan struct{}         // closed at the end of the running discovery; nil if no discovery is running
	retry        time.Time             // earliest time of the next discovery
	backoff      time.Duration         // the pause after the last failure
}

// claimRule is a ClaimRule after validation.
type claimRule struct {
	claim, value string
	grant        Grant
}

// newIssuer returns the issuer that o configures. Rules.check must have accepted o. Cancelling ctx
// cancels the issuer's discoveries.
func newIssuer(ctx context.Context, o IssuerRule, config Config) *issuer {
	i := &issuer{config: o, prefix: "oidc:", log: config.Logger.With("issuer", o.Issuer), now: config.Now, ctx: ctx, timeout: issuerTimeout}
	if o.Name != "" {
		i.prefix += o.Name + ":"
	}
	if o.NameClaim == "" {
		i.config.NameClaim = "sub"
	}
	for _, r := range o.ClaimRules {
		grant, _ := grantOf(r.Ledgers, r.Scopes)
		i.rules = append(i.rules, claimRule{r.Claim, r.Value, grant})
	}
	return i
}

// identify authenticates a token. The caller has already parsed the claims of the token into
// unverified. If they disqualify the token, identify does not verify the signature. The nbf claim
// may be up to clockSkew in the future, but the signature, issuer, audience, and expiry must be
// exactly right. After the library has verified the token, identify checks the claims again,
// because the library ignores the case of claim names.
func (i *issuer) identify(ctx context.Context, token string, unverified *claims, mayVerify func() bool) (*Identity, error) {
	if err := unverified.check(i.config, i.now()); err != nil {
		return nil, err
	}
	verifier, err := i.current(ctx)
	if err != nil {
		return nil, err
	}
	if !mayVerify() {
		return nil, ErrVerificationSkipped
	}
	verified, err := verifier.Verify(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("verifying a token from %s: %w", i.config.Issuer, err)
	}
	c, err := verifiedClaims(verified)
	if err != nil {
		return nil, err
	}
	if err := c.check(i.config, i.now()); err != nil {
		return nil, err
	}
	return i.identity(c)
}

// current returns a verifier with recent keys. If the keys are missing or old, it starts a
// discovery. If there are no usable keys, it also waits for the discovery to end.
func (i *issuer) current(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	if age := i.now().Sub(i.discoveredAt); i.verifier == nil || age >= discoveryInterval {
		i.startDiscovery()
	}
	verifier, discovering := i.usableVerifier(), i.discovering
	i.mu.Unlock()
	if verifier == nil && discovering != nil {
		select {
		case <-discovering:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		i.mu.Lock()
		verifier = i.usableVerifier()
		i.mu.Unlock()
	}
	if verifier == nil {
		return nil, errors.New("the keys of the token's issuer cannot be fetched")
	}
	return verifier, nil
}

// origins returns the origins to which the console sends requests during a sign-in. It does not
// wait: if the issuer has not been discovered yet, it starts a discovery and leaves out the token
// endpoint, which is still unknown.
func (i *issuer) origins() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier == nil {
		i.startDiscovery()
	}
	var list []string
	for _, address := range []string{i.config.Issuer, i.tokenURL} {
		if origin := originOf(address); origin != "" && !slices.Contains(list, origin) {
			list = append(list, origin)
		}
	}
	return list
}

// originPattern matches an origin that a Content-Security-Policy can contain.
var originPattern = regexp.MustCompile(`^https?://[A-Za-z0-9.\[\]:-]+$`)

// originOf returns the origin of a URL, or "" if a Content-Security-Policy cannot contain it.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if origin := u.Scheme + "://" + u.Host; originPattern.MatchString(origin) {
		return origin
	}
	return ""
}

// usableVerifier returns the verifier, or nil if its keys are too old. The caller must hold mu.
func (i *issuer) usableVerifier() *oidc.IDTokenVerifier {
	if i.verifier == nil || i.now().Sub(i.discoveredAt) >= keysValidFor {
		return nil
	}
	return i.verifier
}

// startDiscovery starts a discovery unless one is running or the pause after a failure has not yet passed. The
// caller must hold mu.
func (i *issuer) startDiscovery() {
	now := i.now()
	if i.discovering != nil || now.Before(i.retry) {
		return
	}
	discovering := make(chan struct{})
	i.discovering = discovering
	go func() {
		defer close(discovering)
		verifier, tokenURL, err := i.discover()
		i.mu.Lock()
		defer i.mu.Unlock()
		i.discovering = nil
		if err == nil {
			i.verifier, i.tokenURL, i.discoveredAt, i.backoff = verifier, tokenURL, now, 0
			return
		}
		i.backoff = min(max(2*i.backoff, minBackoff), maxBackoff)
		i.retry = i.now().Add(i.backoff)
		i.log.Warn("cannot fetch the keys of a token issuer", "error", err, "again_in", i.backoff)
	}()
}

// noToken is a JWT that no key has signed. Verifying it makes the library fetch the keys.
const noToken = "eyJhbGciOiJSUzI1NiJ9.e30.AA" // #nosec G101 -- no key has signed it

// discover fetches the issuer's discovery document and keys. It returns a verifier that uses
// them, and the URL of the token endpoint, or "" if the document has none. After an error, the
// previous keys stay valid.
func (i *issuer) discover() (*oidc.IDTokenVerifier, string, error) {
	ctx := oidc.ClientContext(i.ctx, newIssuerClient(i.config.Issuer, i.timeout, i.now))
	provider, err := oidc.NewProvider(ctx, i.config.Issuer)
	if err != nil {
		return nil, "", err
	}
	var document struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, "", err
	}
	keys := oidc.NewRemoteKeySet(ctx, document.KeysURL)
	// The library fetches the keys when it gets a token that it cannot verify.
	_, err = keys.VerifySignature(ctx, noToken)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return nil, "", err
	}
	verifier := oidc.NewVerifier(i.config.Issuer, keys, &oidc.Config{ClientID: i.config.Audience, SupportedSigningAlgs: algorithms, Now: i.now})
	return verifier, provider.Endpoint().TokenURL, nil
}

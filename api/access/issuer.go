package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// discoverEvery is how often an issuer is asked anew where its keys are, and for
	// all of them: a key that it has withdrawn is accepted no longer.
	discoverEvery = time.Hour
	// keysLast is how long its keys are used while it does not answer.
	keysLast = 24 * time.Hour
	// An issuer that did not answer is asked again after a while that doubles.
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// algorithms that a token may be signed with: those with a public and a private
// key. With any other, who knows the public key could sign.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// issuer judges the tokens of an OpenID Connect issuer.
type issuer struct {
	config OIDC
	prefix string // of its actors
	rules  []claimRule
	log    *slog.Logger
	now    func() time.Time
	ctx    context.Context // ends discoveries; requests have their own
	// timeout bounds each question to the issuer, its answer included.
	timeout time.Duration

	mu       sync.Mutex            // guards what follows; never held during I/O
	verifier *oidc.IDTokenVerifier // nil until the issuer has answered
	born     time.Time             // when it was asked for the verifier
	asking   chan struct{}         // closed when the question under way is answered; nil if there is none
	retry    time.Time             // not to be asked before
	backoff  time.Duration         // after the last failure
}

// claimRule is a ClaimRule that was checked.
type claimRule struct {
	claim, value string
	grant        Grant
}

// newIssuer takes an OIDC that was checked. ctx ends what it asks.
func newIssuer(ctx context.Context, o OIDC, config Config) *issuer {
	i := &issuer{config: o, prefix: "oidc:", log: config.Log.With("issuer", o.Issuer), now: config.Now, ctx: ctx, timeout: issuerTimeout}
	if o.Name != "" {
		i.prefix += o.Name + ":"
	}
	if o.NameClaim == "" {
		i.config.NameClaim = "sub"
	}
	for _, r := range o.Rules {
		grant, _ := grantOf(r.Ledgers, r.Scopes)
		i.rules = append(i.rules, claimRule{r.Claim, r.Value, grant})
	}
	return i
}

// identify judges a token with these claims, which are not verified yet. Signature,
// issuer, audience and expiry are checked as they are, nbf with some minutes for clocks
// that go wrong. What the claims alone rule out costs no signature; those that the
// library has verified are checked again, for it reads names whatever their case.
func (i *issuer) identify(ctx context.Context, token string, unverified *claims, mayVerify func() bool) (*Identity, error) {
	if err := unverified.check(i.config, i.now()); err != nil {
		return nil, err
	}
	verifier, err := i.current(ctx)
	if err != nil {
		return nil, err
	}
	if !mayVerify() {
		return nil, ErrUnjudged
	}
	verified, err := verifier.Verify(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("a token of %s: %w", i.config.Issuer, err)
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

// current is the verifier with keys that are recent enough. It asks the issuer if
// need be, and waits for the answer if there is nothing to go on with.
func (i *issuer) current(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	if age := i.now().Sub(i.born); i.verifier == nil || age >= discoverEvery {
		i.ask()
	}
	verifier, asking := i.usable(), i.asking
	i.mu.Unlock()
	if verifier == nil && asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		i.mu.Lock()
		verifier = i.usable()
		i.mu.Unlock()
	}
	if verifier == nil {
		return nil, errors.New("the issuer of the token does not answer")
	}
	return verifier, nil
}

// usable is the verifier unless its keys are too old. The caller holds mu.
func (i *issuer) usable() *oidc.IDTokenVerifier {
	if i.verifier == nil || i.now().Sub(i.born) >= keysLast {
		return nil
	}
	return i.verifier
}

// ask begins to ask the issuer, unless that is under way or too early. The caller
// holds mu.
func (i *issuer) ask() {
	now := i.now()
	if i.asking != nil || now.Before(i.retry) {
		return
	}
	i.asking = make(chan struct{})
	go func() {
		verifier, err := i.discover()
		i.mu.Lock()
		defer i.mu.Unlock()
		close(i.asking)
		i.asking = nil
		if err == nil {
			i.verifier, i.born, i.backoff = verifier, now, 0
			return
		}
		i.backoff = min(max(2*i.backoff, minBackoff), maxBackoff)
		i.retry = i.now().Add(i.backoff)
		i.log.Warn("the issuer of tokens does not answer as it should", "error", err, "again_in", i.backoff)
	}()
}

// noToken is a JWT that no key has signed.
const noToken = "eyJhbGciOiJSUzI1NiJ9.e30.AA" // #nosec G101 -- no key has signed it

// discover asks the issuer where its keys are, and for the keys. An error leaves those
// of before in force.
func (i *issuer) discover() (*oidc.IDTokenVerifier, error) {
	ctx := oidc.ClientContext(i.ctx, newIssuerClient(i.config.Issuer, i.timeout, i.now))
	provider, err := oidc.NewProvider(ctx, i.config.Issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	keys := oidc.NewRemoteKeySet(ctx, document.KeysURL)
	// The library fetches the keys once it has a token that it cannot verify.
	_, err = keys.VerifySignature(ctx, noToken)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return nil, err
	}
	return oidc.NewVerifier(i.config.Issuer, keys, &oidc.Config{ClientID: i.config.Audience, SupportedSigningAlgs: algorithms, Now: i.now}), nil
}

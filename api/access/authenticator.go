// Package access says who makes a request and what he may do (openapi.yaml): API tokens, tokens
// of OpenID Connect issuers, and client certificates. It knows nothing of routes.
package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Why a request has no identity. None says more to who asks: a token that is
// unknown, malformed, revoked or expired gets the same answer, and so does one
// with a wrong signature. The log says at level debug what it was.
var (
	// ErrNoCredentials: the request brings nothing that could be judged.
	ErrNoCredentials = errors.New("access: no credentials")
	// ErrInvalid: the request brings credentials that do not hold.
	ErrInvalid = errors.New("access: invalid credentials")
	// ErrUnjudged: the request brings a signature that was not to be verified.
	ErrUnjudged = errors.New("access: credentials were not judged")
)

// Config is what an Authenticator needs.
type Config struct {
	// Dir is the folder of the token store; it need not exist.
	Dir string
	// Rules say what tokens of issuers and client certificates may do.
	Rules Rules
	// TrustsAuthority reports whether an authority may sign client certificates now. The
	// handshake that has verified one may have been long ago. Nil trusts that handshake.
	TrustsAuthority func(*x509.Certificate) bool
	Log             *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.TrustsAuthority == nil {
		c.TrustsAuthority = func(*x509.Certificate) bool { return true }
	}
	return c
}

// Authenticator tells who makes a request. A nil one knows nobody and asks for
// nothing. It is safe for concurrent use.
type Authenticator struct {
	log          *slog.Logger
	now          func() time.Time
	tokens       *watch
	uses         *lastUses
	issuers      []*issuer
	certificates []certificateRule
	trusts       func(authority *x509.Certificate) bool
	stop         context.CancelFunc // ends what issuers are asked
}

// Open reads the token store, if there is one, and begins to watch it. Issuers are
// asked for their keys when the first of their tokens is to be judged, so that a
// server starts whether they answer or not.
func Open(config Config) (*Authenticator, error) {
	config = config.withDefaults()
	if err := config.Rules.check(); err != nil {
		return nil, err
	}
	tokens, err := openWatch(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	a := &Authenticator{
		log: config.Log, now: config.Now, stop: stop, tokens: tokens,
		uses: openLastUses(config), certificates: certificateRules(config.Rules.MTLS), trusts: config.TrustsAuthority,
	}
	for _, o := range config.Rules.OIDC {
		a.issuers = append(a.issuers, newIssuer(ctx, o, config))
	}
	return a, nil
}

// Close writes down when tokens were used last, as well as it can. No request may
// be under way.
func (a *Authenticator) Close() {
	if a == nil {
		return
	}
	a.stop()
	a.uses.write(a.tokens.current())
}

// Required reports whether a request needs an identity: there are tokens, be they
// revoked or expired, or there were and their file is gone or damaged, or an
// issuer or certificates are configured.
func (a *Authenticator) Required() bool {
	return a != nil && (len(a.issuers) > 0 || len(a.certificates) > 0 || a.tokens.exist())
}

// Summary names what requests are authenticated by, like "3 tokens, OIDC from
// https://id.example.org"; "" where nothing is required.
func (a *Authenticator) Summary() string {
	if !a.Required() {
		return ""
	}
	var parts []string
	if table := a.tokens.current(); table.exists {
		parts = append(parts, table.summary(a.now()))
	}
	for _, i := range a.issuers {
		parts = append(parts, "OIDC from "+i.config.Issuer)
	}
	if len(a.certificates) > 0 {
		parts = append(parts, "client certificates")
	}
	return strings.Join(parts, ", ")
}

// Authenticate tells who makes a request. The error is ErrNoCredentials or
// ErrInvalid.
//
// A request is judged by its Authorization header if it has one, else by its
// client certificate: a certificate never saves a token that does not hold. More
// than one Authorization header, and any scheme but Bearer, are invalid. Tokens in
// queries, forms and cookies are not looked for.
//
// What holds is read anew each time, so that a revocation is obeyed by the next
// request; whoever answers one request for long asks again.
func (a *Authenticator) Authenticate(r *http.Request) (*Identity, error) {
	return a.AuthenticateWithin(r, func() bool { return true })
}

// AuthenticateWithin is Authenticate for whoever bounds what is costly: mayVerify is
// asked before the signature of an issuer's token is verified, and never where
// something cheap decides. If it says no, the error is ErrUnjudged.
func (a *Authenticator) AuthenticateWithin(r *http.Request, mayVerify func() bool) (*Identity, error) {
	if a == nil {
		return nil, ErrNoCredentials
	}
	identity, err := a.identify(r, mayVerify)
	if err == nil || errors.Is(err, ErrNoCredentials) || errors.Is(err, ErrUnjudged) {
		return identity, err
	}
	a.log.DebugContext(r.Context(), "credentials refused", "address", r.RemoteAddr, "reason", err)
	return nil, ErrInvalid
}

func (a *Authenticator) identify(r *http.Request, mayVerify func() bool) (*Identity, error) {
	bearer, err := bearerOf(r.Header)
	switch {
	case errors.Is(err, ErrNoCredentials):
		return a.byCertificate(r.TLS)
	case err != nil:
		return nil, err
	case strings.HasPrefix(bearer, tokenPrefix):
		return a.byToken(bearer)
	}
	return a.byIssuer(r.Context(), bearer, mayVerify)
}

// byToken judges an API token.
func (a *Authenticator) byToken(text string) (*Identity, error) {
	now := a.now()
	table := a.tokens.current()
	token, err := table.find(text, now)
	if err != nil {
		return nil, err
	}
	a.uses.note(token.ID, now, table)
	return &token.identity, nil
}

// byCertificate judges a client certificate that the TLS handshake has verified.
func (a *Authenticator) byCertificate(state *tls.ConnectionState) (*Identity, error) {
	if len(a.certificates) == 0 || state == nil || len(state.VerifiedChains) == 0 {
		return nil, ErrNoCredentials
	}
	// The handshake may have been long ago, of another connection even, which this one
	// resumes.
	var err error
	for _, chain := range state.VerifiedChains {
		if err = a.stillVerified(chain); err == nil {
			return matchCertificate(a.certificates, chain[0])
		}
	}
	return nil, err
}

// stillVerified says why a chain of certificates that was verified does not hold now.
func (a *Authenticator) stillVerified(chain []*x509.Certificate) error {
	now := a.now()
	for _, c := range chain {
		if now.After(c.NotAfter) || now.Before(c.NotBefore) {
			return fmt.Errorf("the certificate %q in the chain of the client's holds from %s to %s", c.Subject, c.NotBefore, c.NotAfter)
		}
	}
	if !a.trusts(chain[len(chain)-1]) {
		return errors.New("the authority of the client certificate is trusted no longer")
	}
	return nil
}

// byIssuer judges a token that an issuer has signed.
func (a *Authenticator) byIssuer(ctx context.Context, token string, mayVerify func() bool) (*Identity, error) {
	if len(a.issuers) == 0 {
		return nil, errors.New("it is no API token, and no issuer is configured")
	}
	unverified, err := unverifiedClaims(token)
	if err != nil {
		return nil, err
	}
	for _, i := range a.issuers {
		if i.config.Issuer == unverified.issuer() {
			return i.identify(ctx, token, unverified, mayVerify)
		}
	}
	return nil, errors.New("the token is of an issuer that is not configured")
}

// Package access authenticates requests and determines what their callers are allowed to do. It
// accepts API tokens, tokens of OpenID Connect issuers, and client certificates (see openapi.yaml).
// It does not know the server's routes.
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

// These errors explain why a request could not be authenticated. To avoid helping attackers, a
// token that is unknown, malformed, revoked, or expired gets the same error as a token with a wrong
// signature. The server logs the actual reason at debug level.
var (
	// ErrNoCredentials means that the request has no credentials.
	ErrNoCredentials = errors.New("access: no credentials")
	// ErrInvalidCredentials means that the request has credentials that are not valid.
	ErrInvalidCredentials = errors.New("access: invalid credentials")
	// ErrStaleTokens means that the server cannot read the shared token store, and so does not know
	// whether the token has been revoked.
	ErrStaleTokens = errors.New("access: the shared token store cannot be read")
	// ErrVerificationSkipped means that AuthenticateLimited did not verify the signature of a
	// token, because its mayVerify argument returned false.
	ErrVerificationSkipped = errors.New("access: signature verification was not allowed")
)

// Config configures an Authenticator.
type Config struct {
	// Dir is the folder of the token store. It need not exist.
	Dir string
	// SharedStore is the store of the tokens. If it is nil, Dir contains the tokens.
	SharedStore SharedStore
	// Rules grant scopes to issuers' tokens and to client certificates.
	Rules Rules
	// TrustsAuthority reports whether an authority is still trusted to sign client certificates. It
	// is called for each request, because the TLS handshake that verified the certificate may have
	// taken place long ago. If it is nil, authorities are checked only during the handshake.
	TrustsAuthority func(*x509.Certificate) bool
	Logger          *slog.Logger
	// Now returns the current time. The default is time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.TrustsAuthority == nil {
		c.TrustsAuthority = func(*x509.Certificate) bool { return true }
	}
	return c
}

// Authenticator determines the identity of requests. A nil Authenticator requires no
// credentials, and ignores any that a request has. It is safe for concurrent use.
type Authenticator struct {
	log          *slog.Logger
	now          func() time.Time
	tokens       tokenView
	uses         *lastUses
	issuers      []*issuer
	certificates []certificateRule
	trusts       func(authority *x509.Certificate) bool
	stop         context.CancelFunc // cancels requests to issuers
}

// Open reads the token store, if it exists, and watches it. It does not contact issuers. The server
// fetches an issuer's keys only when it needs them, so it can start even if an issuer is down.
func Open(config Config) (*Authenticator, error) {
	config = config.withDefaults()
	if err := config.Rules.check(); err != nil {
		return nil, err
	}
	tokens, err := openTokens(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	a := &Authenticator{
		log: config.Logger, now: config.Now, stop: stop, tokens: tokens,
		uses: openLastUses(config), certificates: certificateRules(config.Rules.MTLS), trusts: config.TrustsAuthority,
	}
	for _, o := range config.Rules.OIDC {
		a.issuers = append(a.issuers, newIssuer(ctx, o, config))
	}
	return a, nil
}

// Close writes the last-use times of tokens and logs any failure. It must not be called during a request.
func (a *Authenticator) Close() {
	if a == nil {
		return
	}
	a.stop()
	a.uses.close(a.tokens.current())
	a.tokens.close()
}

// RequiresIdentity reports whether requests need an identity. They do if an issuer or a certificate
// rule is configured, or if tokens exist, even revoked or expired ones. They also do if tokens once
// existed but their file is missing or damaged.
func (a *Authenticator) RequiresIdentity() bool {
	return a != nil && (len(a.issuers) > 0 || len(a.certificates) > 0 || a.tokens.exist())
}

// SignInMethods describes the credentials that an Authenticator accepts.
type SignInMethods struct {
	// Required says whether requests need credentials. AcceptsTokens says whether these can be API tokens, and
	// AcceptsCertificates whether they can be client certificates.
	Required, AcceptsTokens, AcceptsCertificates bool
	Issuers                                      []IssuerRule // the issuers with a ConsoleClientID
}

// SignInMethods returns a description of the accepted credentials, or the zero value if none are
// required.
func (a *Authenticator) SignInMethods() SignInMethods {
	if !a.RequiresIdentity() {
		return SignInMethods{}
	}
	s := SignInMethods{Required: true, AcceptsTokens: a.tokens.exist(), AcceptsCertificates: len(a.certificates) > 0}
	for _, i := range a.issuers {
		if i.config.ConsoleClientID != "" {
			s.Issuers = append(s.Issuers, i.config)
		}
	}
	return s
}

// SignInOrigins returns the origins to which the console sends requests while a person signs in.
// These are the origins of the issuers that have a ConsoleClientID, and the origins of their token
// endpoints.
func (a *Authenticator) SignInOrigins() []string {
	if a == nil {
		return nil
	}
	var list []string
	for _, i := range a.issuers {
		if i.config.ConsoleClientID != "" {
			list = append(list, i.origins()...)
		}
	}
	return list
}

// Summary names the accepted credentials, such as "3 tokens, OIDC from
// https://id.example.org". It returns "" if none are required.
func (a *Authenticator) Summary() string {
	if !a.RequiresIdentity() {
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

// Authenticate returns the identity of a request. The error is ErrNoCredentials, ErrInvalidCredentials, or
// ErrStaleTokens.
//
// If the request has an Authorization header, its client certificate is ignored, even if the token is
// invalid. Several Authorization headers, and any scheme other than Bearer, are invalid. Tokens in
// queries, forms, and cookies are ignored.
//
// Every call uses the current tokens. A revocation therefore takes effect with the next request or, if the
// store is shared, within a second (see SharedStore). A handler that sends a long response must call
// Authenticate again from time to time.
func (a *Authenticator) Authenticate(r *http.Request) (*Identity, error) {
	return a.AuthenticateLimited(r, func() bool { return true })
}

// AuthenticateLimited is like Authenticate, but verifies the signature of an issuer's token only if
// mayVerify returns true. The caller can thus limit these expensive checks. AuthenticateLimited
// calls mayVerify only if no cheap check has failed. If mayVerify returns false, the error is
// ErrVerificationSkipped.
func (a *Authenticator) AuthenticateLimited(r *http.Request, mayVerify func() bool) (*Identity, error) {
	if a == nil {
		return nil, ErrNoCredentials
	}
	identity, err := a.identify(r, mayVerify)
	if err == nil || errors.Is(err, ErrNoCredentials) || errors.Is(err, ErrVerificationSkipped) || errors.Is(err, ErrStaleTokens) {
		return identity, err
	}
	a.log.DebugContext(r.Context(), "credentials refused", "address", r.RemoteAddr, "reason", err)
	return nil, ErrInvalidCredentials
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

// byToken authenticates with an API token and records the use of the token.
func (a *Authenticator) byToken(text string) (*Identity, error) {
	now := a.now()
	table := a.tokens.current()
	token, err := table.find(text, now)
	if err != nil {
		return nil, err
	}
	a.uses.recordUse(token.ID, now, table)
	return &token.identity, nil
}

// byCertificate authenticates with a client certificate that the TLS handshake has verified.
func (a *Authenticator) byCertificate(state *tls.ConnectionState) (*Identity, error) {
	if len(a.certificates) == 0 || state == nil || len(state.VerifiedChains) == 0 {
		return nil, ErrNoCredentials
	}
	// The TLS handshake may have taken place long ago, because a connection can resume the session
	// of an earlier connection. Check the certificates again.
	var err error
	for _, chain := range state.VerifiedChains {
		if err = a.stillVerified(chain); err == nil {
			return matchCertificate(a.certificates, chain[0])
		}
	}
	return nil, err
}

// stillVerified returns an error if a certificate in a verified chain is outside its validity
// period, or if the authority of the chain is no longer trusted.
func (a *Authenticator) stillVerified(chain []*x509.Certificate) error {
	now := a.now()
	for _, c := range chain {
		if now.After(c.NotAfter) || now.Before(c.NotBefore) {
			return fmt.Errorf("the certificate %q in the client certificate's chain is valid only from %s to %s", c.Subject, c.NotBefore, c.NotAfter)
		}
	}
	if !a.trusts(chain[len(chain)-1]) {
		return errors.New("the CA that issued the client certificate is no longer trusted")
	}
	return nil
}

// byIssuer authenticates with a token that an issuer has signed.
func (a *Authenticator) byIssuer(ctx context.Context, token string, mayVerify func() bool) (*Identity, error) {
	if len(a.issuers) == 0 {
		return nil, errors.New("the token is not an API token, and no issuer is configured")
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
	return nil, errors.New("the token's issuer is not configured")
}

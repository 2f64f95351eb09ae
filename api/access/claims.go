package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"colophon/ledger/record/pyjson"
)

// maxClaimedName is the maximum length, in bytes, of an actor name that is taken from a claim. It
// is small because events and logs repeat the name.
const maxClaimedName = 255

// readByLibrary lists the claims that the OpenID Connect library reads. The library matches their
// names case-insensitively.
var readByLibrary = [...]string{"iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "at_hash", "_claim_names", "_claim_sources"}

// claims holds the claims of a JWT, keyed by their exact names.
type claims struct{ document pyjson.Document }

// parseClaims parses the payload of a JWT. It refuses a payload that two parsers could interpret
// differently: one with duplicate names at any depth, or with a name that differs only in case from
// a name that the library reads.
func parseClaims(payload []byte) (*claims, error) {
	c := new(claims)
	if err := c.document.Parse(payload); err != nil {
		return nil, fmt.Errorf("parsing the payload of the JWT: %w", err)
	}
	if c.document.Root().Kind() != pyjson.Object {
		return nil, errors.New("the payload of the JWT is not a JSON object")
	}
	for member := range c.document.Root().Members() {
		name := string(member.Text())
		for _, exact := range readByLibrary {
			if name != exact && strings.EqualFold(name, exact) {
				return nil, fmt.Errorf("the payload of the JWT has the claim %q, which differs from %q only in case", name, exact)
			}
		}
	}
	return c, nil
}

// unverifiedClaims parses the claims of a JWT without any verification.
func unverifiedClaims(token string) (*claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("the token is neither an API token nor a JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, fmt.Errorf("decoding the payload of the JWT: %w", err)
	}
	return parseClaims(payload)
}

// verifiedClaims returns the claims of a token whose signature has been verified.
func verifiedClaims(token *oidc.IDToken) (*claims, error) {
	var payload json.RawMessage
	if err := token.Claims(&payload); err != nil {
		return nil, err
	}
	return parseClaims(payload)
}

func (c *claims) value(name string) pyjson.Value { return c.document.Root().Member(name) }

func (c *claims) issuer() string { return string(c.value("iss").Text()) }

// clockSkew is how far in the future the nbf claim of a token may be, in case the issuer's clock is
// ahead. It does not apply to exp.
const clockSkew = 5 * time.Minute

// check returns an error unless the issuer made the token for this server and the token is
// valid now.
func (c *claims) check(o IssuerRule, now time.Time) error {
	if c.issuer() != o.Issuer {
		return fmt.Errorf("the token comes from the issuer %q, not %q", c.issuer(), o.Issuer)
	}
	if !slices.Contains(texts(c.value("aud")), o.Audience) {
		return fmt.Errorf("the token is not for the audience %q", o.Audience)
	}
	expiry, err := numericDate(c.value("exp"))
	if err != nil {
		return fmt.Errorf(`invalid claim "exp": %w`, err)
	}
	if expiry.Before(now) {
		return fmt.Errorf("the token expired at %s", expiry.UTC().Format(time.RFC3339))
	}
	if !c.value("nbf").IsGiven() {
		return nil
	}
	begin, err := numericDate(c.value("nbf"))
	if err != nil {
		return fmt.Errorf(`invalid claim "nbf": %w`, err)
	}
	if begin.After(now.Add(clockSkew)) {
		return fmt.Errorf("the token is not valid before %s", begin.UTC().Format(time.RFC3339))
	}
	return nil
}

// numericDate parses a number of seconds since 1970 (RFC 7519, section 2) and drops any fraction.
func numericDate(v pyjson.Value) (time.Time, error) {
	seconds, ok := v.Float()
	if !ok || seconds < 0 || seconds > 1<<53 {
		return time.Time{}, errors.New("the value is missing or is not a valid number of seconds since 1970")
	}
	return time.Unix(int64(seconds), 0), nil
}

// identity returns the identity that a verified token names, with the grants of all matching
// rules.
func (i *issuer) identity(c *claims) (*Identity, error) {
	claimed := c.value(i.config.NameClaim)
	if claimed.Kind() != pyjson.String {
		return nil, fmt.Errorf("the claim %q is missing or is not a string", i.config.NameClaim)
	}
	name := string(claimed.Text())
	if err := checkClaimedName(name); err != nil {
		return nil, fmt.Errorf("invalid claim %q: %w", i.config.NameClaim, err)
	}
	identity := &Identity{Actor: i.prefix + name}
	for _, r := range i.rules {
		if slices.Contains(claimValues(r.claim, c.value(r.claim)), r.value) {
			identity.Grants = append(identity.Grants, r.grant)
		}
	}
	return identity, nil
}

// checkClaimedName refuses names that a person could confuse with other names.
func checkClaimedName(name string) error {
	// Ranging over a string yields utf8.RuneError for invalid UTF-8, such as a lone surrogate.
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	switch {
	case name == "" || len(name) > maxClaimedName:
		return fmt.Errorf("a name must be 1 to %d bytes long; got %d", maxClaimedName, len(name))
	case strings.ContainsFunc(name, odd) || strings.TrimSpace(name) != name:
		return fmt.Errorf("%q has invisible or invalid characters, or begins or ends with a space", name)
	}
	return nil
}

// claimValues returns the strings in the value of a claim: the value itself, or the elements of a
// list. If the claim is scope and its value is a string, claimValues returns the words of that
// string (RFC 8693, section 4.2).
func claimValues(claim string, value pyjson.Value) []string {
	if claim == "scope" && value.Kind() == pyjson.String {
		return strings.Fields(string(value.Text()))
	}
	return texts(value)
}

// texts returns the strings in a value: the value itself, or the elements of a list. It ignores
// everything that is not a string.
func texts(value pyjson.Value) []string {
	if value.Kind() == pyjson.String {
		return []string{string(value.Text())}
	}
	var list []string
	for element := range value.Elements() {
		if element.Kind() == pyjson.String {
			list = append(list, string(element.Text()))
		}
	}
	return list
}

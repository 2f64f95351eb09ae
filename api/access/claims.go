package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
)

// maxClaimedName bounds the name that a claim gives to an actor, in bytes: events
// and logs are full of it.
const maxClaimedName = 255

// claimedIssuer is the issuer that a JWT says it is of. Nothing about it is verified
// yet.
func claimedIssuer(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("the token is neither an API token nor a JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", fmt.Errorf("the payload of the JWT: %w", err)
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "", fmt.Errorf("the payload of the JWT: %w", err)
	}
	return claims.Issuer, nil
}

// identity is who a verified token is of, and what the rules give him.
func (i *issuer) identity(token *oidc.IDToken) (*Identity, error) {
	var payload json.RawMessage
	if err := token.Claims(&payload); err != nil {
		return nil, err
	}
	if !utf8.Valid(payload) {
		return nil, errors.New("the token is not UTF-8")
	}
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil, err
	}
	var name string
	if err := json.Unmarshal(claims[i.config.NameClaim], &name); err != nil {
		return nil, fmt.Errorf("the claim %q does not name anybody: %w", i.config.NameClaim, err)
	}
	if err := checkClaimedName(name); err != nil {
		return nil, fmt.Errorf("the claim %q: %w", i.config.NameClaim, err)
	}
	identity := &Identity{Actor: i.prefix + name}
	for _, r := range i.rules {
		if slices.Contains(claimValues(r.claim, claims[r.claim]), r.value) {
			identity.Grants = append(identity.Grants, r.grant)
		}
	}
	return identity, nil
}

// checkClaimedName refuses what could not be told from other names by who reads it.
func checkClaimedName(name string) error {
	// A lone surrogate becomes U+FFFD, and so would another.
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	switch {
	case name == "" || len(name) > maxClaimedName:
		return fmt.Errorf("a name has 1 to %d bytes, not %d", maxClaimedName, len(name))
	case strings.ContainsFunc(name, odd) || strings.TrimSpace(name) != name:
		return fmt.Errorf("%q has characters that one does not see", name)
	}
	return nil
}

// claimValues are the texts that a claim holds: itself, or those in its list. The
// claim scope is a list of words (RFC 8693, 4.2).
func claimValues(claim string, value json.RawMessage) []string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		if claim == "scope" {
			return strings.Fields(text)
		}
		return []string{text}
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return nil
	}
	var values []string
	for _, element := range list {
		var text string
		if json.Unmarshal(element, &text) == nil {
			values = append(values, text)
		}
	}
	return values
}

package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"
)

// The text of a token is colophon_<id>_<secret>. The prefix allows secret scanners to detect leaked
// tokens. The id identifies the token and can be shown. The secret has 256 random bits, so storing
// a plain hash of it is enough.
const (
	tokenPrefix = "colophon_"
	idBytes     = 10 // 16 characters in base32
	secretBytes = 32 // 52 characters in base32
)

var (
	tokenEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	tokenPattern  = regexp.MustCompile(`^colophon_([a-z2-7]{16})_[a-z2-7]{52}$`)
	idPattern     = regexp.MustCompile(`^[a-z2-7]{16}$`)
)

// newTokenText returns the text and the id of a new random token.
func newTokenText() (text, id string) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	id = tokenEncoding.EncodeToString(random[:idBytes])
	return tokenPrefix + id + "_" + tokenEncoding.EncodeToString(random[idBytes:]), id
}

// tokenID returns the ID in the text of a token. ok is false if text does not have the form of a
// token.
func tokenID(text string) (id string, ok bool) {
	found := tokenPattern.FindStringSubmatch(text)
	if found == nil {
		return "", false
	}
	return found[1], true
}

// TokenDigest is the SHA-256 hash of a token's text. In JSON, it is written as 64 lower-case
// hexadecimal digits.
type TokenDigest [sha256.Size]byte

// MarshalText returns 64 lower-case hexadecimal digits.
func (d TokenDigest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText decodes 64 hexadecimal digits.
func (d *TokenDigest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a SHA-256 hash must have %d hexadecimal digits; got %d", hex.EncodedLen(len(d)), len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// Token is the stored form of a token, which does not include the token's text. A caller that sends
// the text acts as Name and has the scopes in Grants.
type Token struct {
	ID        string      `json:"id"`     // the part of the token's text that is not secret
	Name      string      `json:"name"`   // unique among tokens that are not revoked
	SHA256    TokenDigest `json:"sha256"` // hash of the token's text
	Grants    []Grant     `json:"grants"`
	CreatedAt time.Time   `json:"created"`
	Expires   time.Time   `json:"expires,omitzero"` // zero means never
	RevokedAt time.Time   `json:"revoked,omitzero"` // zero means not revoked
}

// State returns "active", "expired", or "revoked", depending on the state of the token at the time
// now.
func (t *Token) State(now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	}
	return "active"
}

// check returns an error if a stored token is not valid.
func (t *Token) check() error {
	if !idPattern.MatchString(t.ID) {
		return fmt.Errorf("%q is not a token id", t.ID)
	}
	if err := checkName(t.Name); err != nil {
		return err
	}
	if t.SHA256 == (TokenDigest{}) || t.CreatedAt.IsZero() {
		return fmt.Errorf("the token's hash or its creation time is missing")
	}
	return checkGrants(t.Grants)
}

func checkGrants(grants []Grant) error {
	if len(grants) == 0 {
		return fmt.Errorf("the token has no grants")
	}
	for _, g := range grants {
		if err := g.check(); err != nil {
			return err
		}
	}
	return nil
}

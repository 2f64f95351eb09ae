package members

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	"colophon/ledger/record/rules"
)

// If a payload exceeds one of these limits, the event contains no digests of its members (spec:
// Payload members).
const (
	MaxMembers   = 32  // maximum number of payload members that can have digests, not counting the seed of the run
	MaxNameBytes = 128 // maximum length of a member's name in bytes
)

// SecretSize is the length of a ledger's payload-member secret, and DigestSize is the length
// of a digest computed with it. Both are in bytes.
const (
	SecretSize = 32
	DigestSize = 16
)

// Secret is the key that a ledger uses to compute the digests of payload members (spec: Payload
// members). It is safe for concurrent use.
type Secret struct {
	secret [SecretSize]byte
	macs   sync.Pool // pool of *mac, so that the secret need not be hashed again for each digest
}

type mac struct {
	hash.Hash
	message []byte // scratch
	sum     [sha256.Size]byte
}

// NewSecret returns a random secret.
func NewSecret() *Secret {
	s := new(Secret)
	_, _ = rand.Read(s.secret[:]) // never fails
	return s
}

// ParseSecret returns the Secret with the given bytes, or an error unless there are exactly
// SecretSize of them.
func ParseSecret(secret []byte) (*Secret, error) {
	if len(secret) != SecretSize {
		return nil, fmt.Errorf("the payload-member secret has %d bytes, but must have %d", len(secret), SecretSize)
	}
	return &Secret{secret: [SecretSize]byte(secret)}, nil
}

// Bytes returns the bytes of the secret. The caller must not modify them.
func (s *Secret) Bytes() []byte { return s.secret[:] }

// Commitment returns the hash of the secret, which the ledger_created event contains.
func (s *Secret) Commitment() rules.Hash {
	return sha256.Sum256(append([]byte("member_secret\x00"), s.secret[:]...))
}

// AppendDigest appends the digest of a member to dst in hexadecimal. pointer is the member's JSON
// pointer, and form is the member's value in spaced canonical JSON.
func (s *Secret) AppendDigest(dst, pointer, form []byte) []byte {
	m, _ := s.macs.Get().(*mac)
	if m == nil {
		m = &mac{Hash: hmac.New(sha256.New, s.secret[:])}
	}
	defer s.macs.Put(m)
	m.Reset()
	m.message = append(append(append(m.message[:0], "member\x00"...), pointer...), 0)
	m.Write(m.message)
	m.Write(form)
	return hex.AppendEncode(dst, m.Sum(m.sum[:0])[:DigestSize])
}

// IsDigest reports whether text has the form of a member's digest.
func IsDigest(text []byte) bool { return rules.IsHexDigits(text, 2*DigestSize) }

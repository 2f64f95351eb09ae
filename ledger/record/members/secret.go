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

// Limits of the payload members that have digests in an event (spec: Payload members).
const (
	MaxMembers = 32  // maximum number of members in a payload, not counting the run's seed
	MaxName    = 128 // maximum length of a member's name in bytes
)

// Lengths, in bytes, of a ledger's secret for payload members and of a digest under it.
const (
	SecretBytes = 32
	DigestBytes = 16
)

// Secret is the key under which a ledger computes digests of payload members (spec: Payload
// members). It is safe for concurrent use.
type Secret struct {
	secret [SecretBytes]byte
	macs   sync.Pool // contains *mac values, so that not every digest has to hash the secret again
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

// ReadSecret returns the secret that consists of the given bytes, of which there must be
// SecretBytes.
func ReadSecret(secret []byte) (*Secret, error) {
	if len(secret) != SecretBytes {
		return nil, fmt.Errorf("the secret of payload members has %d bytes, not %d", len(secret), SecretBytes)
	}
	return &Secret{secret: [SecretBytes]byte(secret)}, nil
}

// Bytes returns the bytes of the secret, which must not be changed.
func (s *Secret) Bytes() []byte { return s.secret[:] }

// Commitment returns the hash of the secret that the event ledger_created contains.
func (s *Secret) Commitment() rules.Hash {
	return sha256.Sum256(append([]byte("member_secret\x00"), s.secret[:]...))
}

// AppendDigest appends the digest of a member to dst, in hexadecimal digits. pointer is the
// member's JSON pointer, and form is its value in spaced canonical JSON.
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
	return hex.AppendEncode(dst, m.Sum(m.sum[:0])[:DigestBytes])
}

// IsDigest reports whether text has the form of a member's digest.
func IsDigest(text []byte) bool { return rules.IsHexDigits(text, 2*DigestBytes) }

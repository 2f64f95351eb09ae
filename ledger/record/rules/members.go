package rules

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
)

// Bounds of the payload members that an event has digests of (spec: Payload members).
const (
	MaxMembers    = 32  // members of a payload, without the run's seed
	MaxMemberName = 128 // bytes of a name
)

// Lengths in bytes: of a ledger's secret for the digests of payload members, and of such a digest.
const (
	MemberSecretBytes = 32
	MemberDigestBytes = 16
)

// MemberSecret is the secret with which a ledger makes the digests of payload members (spec:
// Payload members). It is safe for concurrent use.
type MemberSecret struct {
	secret [MemberSecretBytes]byte
	macs   sync.Pool // of *mac, so that each record does not hash the secret (BenchmarkMembers)
}

type mac struct {
	hash.Hash
	message []byte // scratch
	sum     [sha256.Size]byte
}

// NewMemberSecret returns a random secret.
func NewMemberSecret() *MemberSecret {
	s := new(MemberSecret)
	_, _ = rand.Read(s.secret[:]) // never fails
	return s
}

// ReadMemberSecret returns the secret with these bytes.
func ReadMemberSecret(secret []byte) (*MemberSecret, error) {
	if len(secret) != MemberSecretBytes {
		return nil, fmt.Errorf("the secret of payload members has %d bytes, not %d", len(secret), MemberSecretBytes)
	}
	return &MemberSecret{secret: [MemberSecretBytes]byte(secret)}, nil
}

// Bytes returns the secret.
func (s *MemberSecret) Bytes() []byte { return s.secret[:] }

// Commitment returns the hash by which ledger_created names the secret.
func (s *MemberSecret) Commitment() Hash {
	return sha256.Sum256(append([]byte("member_secret\x00"), s.secret[:]...))
}

// AppendDigest appends the digest of a member in hexadecimal digits. pointer is the member's JSON
// pointer, and form its value in spaced canonical JSON.
func (s *MemberSecret) AppendDigest(dst, pointer, form []byte) []byte {
	m, _ := s.macs.Get().(*mac)
	if m == nil {
		m = &mac{Hash: hmac.New(sha256.New, s.secret[:])}
	}
	defer s.macs.Put(m)
	m.Reset()
	m.message = append(append(append(m.message[:0], "member\x00"...), pointer...), 0)
	m.Write(m.message)
	m.Write(form)
	return hex.AppendEncode(dst, m.Sum(m.sum[:0])[:MemberDigestBytes])
}

// IsMemberDigest reports whether a text has the form of the digest of a member.
func IsMemberDigest(text []byte) bool { return IsDigits(text, 2*MemberDigestBytes) }

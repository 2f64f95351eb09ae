package proofs

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Key is an Ed25519 key pair without a name. A key has to be created before its name is known,
// because an origin may contain the key's fingerprint.
type Key struct {
	private ed25519.PrivateKey
}

// GenerateKey returns a new random key.
func GenerateKey() Key {
	var seed [ed25519.SeedSize]byte
	rand.Read(seed[:]) // Read never returns an error: if it fails, the process crashes
	return NewKey(seed)
}

// NewKey returns the key with the given RFC 8032 seed.
func NewKey(seed [ed25519.SeedSize]byte) Key {
	return Key{private: ed25519.NewKeyFromSeed(seed[:])}
}

// Fingerprint returns the KeyFingerprint of k's public key.
func (k Key) Fingerprint() string { return KeyFingerprint(k.public()) }

// String returns the fingerprint of the key. It never reveals the private key.
func (k Key) String() string { return "Ed25519 key " + k.Fingerprint() }

// GoString returns the same as String, so that %#v does not reveal the private key.
func (k Key) GoString() string { return k.String() }

func (k Key) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Signer returns a signer that uses k. The origin of the log is used as the name of the key.
func (k Key) Signer(origin string) (*Signer, error) {
	vkey, err := note.NewEd25519VerifierKey(origin, k.public())
	if err != nil {
		return nil, fmt.Errorf("making a verifier key for the origin %.100q: %w", origin, err)
	}
	return newSigner(k, vkey)
}

// KeyFingerprint returns the first 16 hexadecimal digits of the public key's SHA-256.
func KeyFingerprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Signer signs checkpoints for a single origin. It is safe for concurrent use.
type Signer struct {
	key      Key
	verifier *Verifier
	signer   note.Signer
}

// algorithmEd25519 is the byte that precedes the key material in an encoded note key (signed-note).
const algorithmEd25519 = 1

const signerPrefix = "PRIVATE+KEY+"

func newSigner(k Key, vkey string) (*Signer, error) {
	s := &Signer{key: k}
	var err error
	if s.verifier, err = ParseVerifier(vkey); err != nil {
		return nil, err
	}
	if s.signer, err = note.NewSigner(s.Secret()); err != nil {
		return nil, fmt.Errorf("%w: parsing the signer key: %w", ErrMalformed, err)
	}
	return s, nil
}

// ParseSigner parses a signer key in the format of golang.org/x/mod/sumdb/note, which Secret also
// returns.
func ParseSigner(secret string) (*Signer, error) {
	if _, err := note.NewSigner(secret); err != nil {
		return nil, fmt.Errorf("%w: parsing the signer key: %w", ErrMalformed, err)
	}
	name, seed, err := keyMaterial(strings.TrimPrefix(secret, signerPrefix))
	if err != nil {
		return nil, err
	}
	return NewKey(seed).Signer(name)
}

// keyMaterial splits an encoded key of the form <name>+<id>+<base64>.
func keyMaterial(encoded string) (name string, material [ed25519.SeedSize]byte, err error) {
	name, rest, _ := strings.Cut(encoded, "+")
	_, text, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 1+len(material) || raw[0] != algorithmEd25519 {
		return "", material, fmt.Errorf("%w: the key is not an Ed25519 note key", ErrMalformed)
	}
	return name, [ed25519.SeedSize]byte(raw[1:]), nil
}

// Secret returns the signer key in the form PRIVATE+KEY+<name>+<id>+<seed>. Anyone who has it can
// sign for the log.
func (s *Signer) Secret() string {
	material := append([]byte{algorithmEd25519}, s.key.private.Seed()...)
	return fmt.Sprintf("%s%s+%08x+%s", signerPrefix, s.Origin(), s.verifier.KeyHash(), base64.StdEncoding.EncodeToString(material))
}

// Origin returns the origin of the log that s signs for.
func (s *Signer) Origin() string { return s.verifier.Name() }

// Verifier returns a verifier for the signer's public key.
func (s *Signer) Verifier() *Verifier { return s.verifier }

// String returns "signer of" followed by the verifier key of s. It never reveals the secret.
func (s *Signer) String() string { return "signer of " + s.verifier.String() }

// GoString returns the same as String, so that %#v does not reveal the secret.
func (s *Signer) GoString() string { return s.String() }

// Verifier verifies checkpoints that a particular key has signed under a particular name. It is
// safe for concurrent use.
type Verifier struct {
	note.Verifier
	public [ed25519.PublicKeySize]byte
	vkey   string
	until  *uint64                // largest tree size for which the key's signature is accepted; nil if there is no bound
	accept func(Checkpoint) error // condition that a checkpoint must meet; nil if every checkpoint is accepted
}

// ParseVerifier parses an Ed25519 verifier key of the form <name>+<id>+<public key> (signed-note).
// It accepts exactly one spelling of each key.
func ParseVerifier(vkey string) (*Verifier, error) {
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, fmt.Errorf("%w: parsing the verifier key: %w", ErrMalformed, err)
	}
	name, public, err := keyMaterial(vkey)
	if err != nil {
		return nil, err
	}
	respelled, err := note.NewEd25519VerifierKey(name, public[:])
	if err != nil || respelled != vkey {
		return nil, fmt.Errorf("%w: the verifier key is not in canonical form", ErrMalformed)
	}
	return &Verifier{Verifier: v, public: public, vkey: vkey}, nil
}

// WithRetirement returns a copy of v for a key that was retired at the given size. The copy does not
// accept the key's signature on checkpoints of larger trees (spec: Key rotation).
func (v *Verifier) WithRetirement(size uint64) *Verifier {
	retired := *v
	retired.until = &size
	return &retired
}

// RetirementSize returns the largest tree size for which v accepts the key's signature. If there is
// no bound, retired is false.
func (v *Verifier) RetirementSize() (size uint64, retired bool) {
	if v.until == nil {
		return 0, false
	}
	return *v.until, true
}

// WithCondition returns a copy of v that accepts the key's signature only on checkpoints for which
// accept returns nil. For any other checkpoint, OpenCheckpoint returns the error from accept.
func (v *Verifier) WithCondition(accept func(Checkpoint) error) *Verifier {
	conditional := *v
	conditional.accept = accept
	return &conditional
}

// WithoutBounds returns a copy of v that has neither a size bound nor a condition.
func (v *Verifier) WithoutBounds() *Verifier {
	plain := *v
	plain.until, plain.accept = nil, nil
	return &plain
}

// checkBounds returns nil if v accepts a valid signature by its key on the checkpoint. Otherwise it
// returns ErrRetiredKey or the error from the condition.
func (v *Verifier) checkBounds(c Checkpoint) error {
	if v.until != nil && c.Size > *v.until {
		return fmt.Errorf("%w: the checkpoint has size %d, but %s+%08x was retired at size %d", ErrRetiredKey, c.Size, v.Name(), v.KeyHash(), *v.until)
	}
	if v.accept == nil {
		return nil
	}
	return v.accept(c)
}

// SameKey reports whether v and other have the same public key. Their names can differ.
func (v *Verifier) SameKey(other *Verifier) bool { return v.public == other.public }

// String returns the encoded verifier key.
func (v *Verifier) String() string { return v.vkey }

// Fingerprint returns the KeyFingerprint of v's public key.
func (v *Verifier) Fingerprint() string { return KeyFingerprint(v.public[:]) }

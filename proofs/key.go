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

// Key is an Ed25519 key pair without a name. A key is created before its name is known,
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

// NewKey returns the key with this RFC 8032 seed.
func NewKey(seed [ed25519.SeedSize]byte) Key {
	return Key{private: ed25519.NewKeyFromSeed(seed[:])}
}

// Fingerprint returns the KeyFingerprint of the public key.
func (k Key) Fingerprint() string { return KeyFingerprint(k.public()) }

// String never shows the private key.
func (k Key) String() string { return "Ed25519 key " + k.Fingerprint() }

// GoString never shows the private key.
func (k Key) GoString() string { return k.String() }

func (k Key) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Signer returns a signer that uses this key. origin becomes the key's name and is the origin
// of the log.
func (k Key) Signer(origin string) (*Signer, error) {
	vkey, err := note.NewEd25519VerifierKey(origin, k.public())
	if err != nil {
		return nil, fmt.Errorf("making a verifier key for the origin %.100q: %w", origin, err)
	}
	return newSigner(k, vkey)
}

// KeyFingerprint returns the first 16 hexadecimal digits of a public key's SHA-256.
func KeyFingerprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Signer signs checkpoints for one origin. It is safe for concurrent use.
type Signer struct {
	key      Key
	verifier *Verifier
	signer   note.Signer
}

// algorithmEd25519 precedes the key material in encoded note keys (signed-note).
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

// ParseSigner parses a signer key in the form that Secret returns
// (golang.org/x/mod/sumdb/note).
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

// keyMaterial splits an encoded key, <name>+<id>+<base64>.
func keyMaterial(encoded string) (name string, material [ed25519.SeedSize]byte, err error) {
	name, rest, _ := strings.Cut(encoded, "+")
	_, text, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 1+len(material) || raw[0] != algorithmEd25519 {
		return "", material, fmt.Errorf("%w: not an Ed25519 note key", ErrMalformed)
	}
	return name, [ed25519.SeedSize]byte(raw[1:]), nil
}

// Secret returns the signer key, PRIVATE+KEY+<name>+<id>+<seed>. Anyone who has it can sign
// for this log.
func (s *Signer) Secret() string {
	material := append([]byte{algorithmEd25519}, s.key.private.Seed()...)
	return fmt.Sprintf("%s%s+%08x+%s", signerPrefix, s.Origin(), s.verifier.KeyHash(), base64.StdEncoding.EncodeToString(material))
}

// Origin returns the origin of the log that the key signs.
func (s *Signer) Origin() string { return s.verifier.Name() }

// Verifier returns the verifier of the signer's public key.
func (s *Signer) Verifier() *Verifier { return s.verifier }

// String never shows the secret.
func (s *Signer) String() string { return "signer of " + s.verifier.String() }

// GoString never shows the secret.
func (s *Signer) GoString() string { return s.String() }

// Verifier verifies the checkpoints that one key has signed under one name. It is safe for
// concurrent use.
type Verifier struct {
	note.Verifier
	public [ed25519.PublicKeySize]byte
	vkey   string
	until  *uint64                // largest tree size for which signatures are accepted; nil if there is no bound
	accept func(Checkpoint) error // nil if every checkpoint is accepted
}

// ParseVerifier parses an Ed25519 verifier key, <name>+<id>+<public key> (signed-note). It
// accepts exactly one spelling of each key.
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

// WithRetirement returns a copy of v for a key that was retired at size: its signature is not accepted on
// checkpoints of larger trees (spec: Key rotation).
func (v *Verifier) WithRetirement(size uint64) *Verifier {
	retired := *v
	retired.until = &size
	return &retired
}

// SignedUpTo returns the largest tree size for which the key's signature is accepted. retired is
// false if there is no bound.
func (v *Verifier) SignedUpTo() (size uint64, retired bool) {
	if v.until == nil {
		return 0, false
	}
	return *v.until, true
}

// WithCondition returns a copy of v that has a condition: its signature is accepted only on
// checkpoints for which accept returns nil. For any other checkpoint, OpenCheckpoint returns
// accept's error.
func (v *Verifier) WithCondition(accept func(Checkpoint) error) *Verifier {
	conditional := *v
	conditional.accept = accept
	return &conditional
}

// WithoutBounds returns a copy of v that has neither a bound nor a condition.
func (v *Verifier) WithoutBounds() *Verifier {
	plain := *v
	plain.until, plain.accept = nil, nil
	return &plain
}

// counts returns nil if a valid signature by this key is accepted on the checkpoint. Otherwise it
// returns ErrRetired or the error of the condition.
func (v *Verifier) counts(c Checkpoint) error {
	if v.until != nil && c.Size > *v.until {
		return fmt.Errorf("%w: the checkpoint has size %d, but %s+%08x was retired at size %d", ErrRetired, c.Size, v.Name(), v.KeyHash(), *v.until)
	}
	if v.accept == nil {
		return nil
	}
	return v.accept(c)
}

// SameKey reports whether v and other have the same public key. Their names can differ.
func (v *Verifier) SameKey(other *Verifier) bool { return v.public == other.public }

// String returns the verifier key.
func (v *Verifier) String() string { return v.vkey }

// Fingerprint returns the KeyFingerprint of the public key.
func (v *Verifier) Fingerprint() string { return KeyFingerprint(v.public[:]) }

package proofs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
)

// Checkpoint is a log's signed statement of the root of its tree at a given size (tlog-checkpoint).
type Checkpoint struct {
	Origin string // identifies the log
	Size   uint64 // number of entries in the tree
	Root   Hash   // root hash of the tree
}

// maxCheckpoint is the maximum length of a signed checkpoint, in bytes. It leaves room for the
// cosignatures of many witnesses.
const maxCheckpoint = 1 << 20

// text returns the signed part of the checkpoint's note, without extension lines.
func (c Checkpoint) text() string {
	return string(log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal())
}

// Sign returns the checkpoint as a signed note. It returns ErrWrongOrigin if the checkpoint's
// origin is not the signer's.
func (s *Signer) Sign(c Checkpoint) ([]byte, error) { return SignCheckpoint(c, s) }

// SignCheckpoint returns the checkpoint as a signed note, with a signature from each of the signers
// in the given order. It returns ErrWrongOrigin if a signer's origin is not the checkpoint's.
func SignCheckpoint(c Checkpoint, signers ...*Signer) ([]byte, error) {
	keys := make([]note.Signer, len(signers))
	for i, s := range signers {
		if c.Origin != s.Origin() {
			return nil, fmt.Errorf("%w: the checkpoint has the origin %.100q, but the signer's origin is %.100q", ErrWrongOrigin, c.Origin, s.Origin())
		}
		keys[i] = s.signer
	}
	signed, err := note.Sign(&note.Note{Text: c.text()}, keys...)
	if err != nil {
		return nil, fmt.Errorf("signing the checkpoint of size %d: %w", c.Size, err)
	}
	return signed, nil
}

// OpenCheckpoint parses and verifies a signed checkpoint. Extension lines and signatures from other
// keys are allowed and have no effect. If a verifier's condition does not accept the checkpoint,
// OpenCheckpoint returns the condition's error (see Verifier.WithCondition). All other errors wrap:
//   - ErrMalformed, if the note is not in the canonical form of tlog-checkpoint
//   - ErrWrongKey, if the note has no signature from any of the verifiers
//   - ErrSignature, if a signature from one of the verifiers is invalid
//   - ErrWrongOrigin, if no verifier that signed the note has the checkpoint's origin as its name
//   - ErrRetiredKey, if the verifier with that name was retired at a smaller size
func OpenCheckpoint(signed []byte, verifiers ...*Verifier) (Checkpoint, error) {
	if len(signed) > maxCheckpoint {
		return Checkpoint{}, fmt.Errorf("%w: the checkpoint is too long: %d bytes", ErrMalformed, len(signed))
	}
	opened, err := note.Open(signed, knownKeys(verifiers))
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		return Checkpoint{}, fmt.Errorf("%w: the checkpoint is signed by %s, not by %s",
			ErrWrongKey, signatureNames(unverified.Note.UnverifiedSigs), knownKeys(verifiers))
	case errors.As(err, &invalid):
		return Checkpoint{}, fmt.Errorf("%w: the signature of %s+%08x does not match the checkpoint's text", ErrSignature, invalid.Name, invalid.Hash)
	case err != nil:
		return Checkpoint{}, fmt.Errorf("%w: parsing the checkpoint: %w", ErrMalformed, err)
	}
	return readCheckpoint(opened, verifiers)
}

// readCheckpoint parses the checkpoint in a note. note.Open must have verified the signatures from
// the known keys.
func readCheckpoint(opened *note.Note, known knownKeys) (Checkpoint, error) {
	for _, s := range slices.Concat(opened.Sigs, opened.UnverifiedSigs) {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return Checkpoint{}, fmt.Errorf("%w: decoding the signature of %.100q: %w", ErrMalformed, s.Name, err)
		}
	}
	c, err := parseCheckpoint(opened.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	var refusal error
	for _, s := range opened.Sigs {
		v := known.find(s.Name, s.Hash)
		if s.Name != c.Origin || v == nil {
			continue
		}
		if refusal = v.checkBounds(c); refusal == nil {
			return c, nil
		}
	}
	if refusal != nil {
		return Checkpoint{}, refusal
	}
	return Checkpoint{}, fmt.Errorf("%w: the checkpoint has the origin %.100q, but is signed by %s", ErrWrongOrigin, c.Origin, signatureNames(opened.Sigs))
}

// parseCheckpoint parses the signed part of a note, which may have extension lines. It returns
// ErrMalformed if the text is not in canonical form.
func parseCheckpoint(text string) (Checkpoint, error) {
	var read log.Checkpoint
	if _, err := read.Unmarshal([]byte(text)); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: parsing the checkpoint: %w", ErrMalformed, err)
	}
	if len(read.Hash) != HashSize {
		return Checkpoint{}, fmt.Errorf("%w: the checkpoint's root has %d bytes, but must have 32", ErrMalformed, len(read.Hash))
	}
	c := Checkpoint{Origin: read.Origin, Size: read.Size, Root: Hash(read.Hash)}
	extensions, ok := strings.CutPrefix(text, c.text())
	if !ok {
		return Checkpoint{}, fmt.Errorf("%w: the checkpoint is not in canonical form", ErrMalformed)
	}
	if strings.HasPrefix(extensions, "\n") || strings.Contains(extensions, "\n\n") {
		return Checkpoint{}, fmt.Errorf("%w: the checkpoint has an empty line", ErrMalformed)
	}
	return c, nil
}

// knownKeys is a list of verifiers. If several match a name and a key id, the first one is used.
type knownKeys []*Verifier

// find returns the verifier with the given name and key ID, or nil if there is none.
func (k knownKeys) find(name string, id uint32) *Verifier {
	for _, v := range k {
		if v.Name() == name && v.KeyHash() == id {
			return v
		}
	}
	return nil
}

// Verifier implements note.Verifiers.
func (k knownKeys) Verifier(name string, id uint32) (note.Verifier, error) {
	if v := k.find(name, id); v != nil {
		return v, nil
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: id}
}

// String returns a list of the keys for use in messages.
func (k knownKeys) String() string {
	var names []string
	for _, v := range k {
		if name := fmt.Sprintf("%s+%08x", v.Name(), v.KeyHash()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// signatureNames returns a list of the keys of the first four signatures, followed by the number of
// remaining signatures, for use in messages.
func signatureNames(signatures []note.Signature) string {
	const most = 4
	var names []string
	for _, s := range signatures[:min(most, len(signatures))] {
		names = append(names, fmt.Sprintf("%.100s+%08x", s.Name, s.Hash))
	}
	if len(signatures) > most {
		names = append(names, fmt.Sprintf("%d more", len(signatures)-most))
	}
	return strings.Join(names, ", ")
}

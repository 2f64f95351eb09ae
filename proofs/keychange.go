package proofs

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"colophon/ledger/record/pyjson"
)

// KeyStep is one of the two steps of a key rotation (spec: Key rotation).
type KeyStep string

// These are the steps of a rotation. Between them, both keys sign.
const (
	KeyStepIntroduced KeyStep = "introduced" // the new key begins to sign, in addition to the current key
	KeyStepRetired    KeyStep = "retired"    // the old key stops signing, so only the new key signs
)

// KeyChange is the content of a key_rotated event's record (spec: Key rotation events).
type KeyChange struct {
	Step KeyStep // whether the new key begins to sign or the old one stops
	// Previous is the key that is being replaced, and Next is its successor.
	Previous, Next *Verifier
	// HandoverNote is the note that SignHandover returns. It is nil if Step is KeyStepRetired.
	HandoverNote []byte
}

// handoverTitle is the first line of a handover. It cannot be mistaken for the first line of a
// checkpoint, because an origin contains no spaces.
const handoverTitle = "colophon key rotation v1\n"

func handoverText(previous, next *Verifier) string {
	return handoverTitle + previous.Name() + "\n" + previous.String() + "\n" + next.String() + "\n"
}

// SignHandover returns the signed note in which a log's key names its successor. The previous key's
// signature authorises the next key. The next key's signature proves that the successor has the
// private key.
func SignHandover(previous, next *Signer) ([]byte, error) {
	if previous.Origin() != next.Origin() {
		return nil, fmt.Errorf("%w: the next key has the origin %.100q, but the previous key has %.100q", ErrWrongOrigin, next.Origin(), previous.Origin())
	}
	text := handoverText(previous.Verifier(), next.Verifier())
	signed, err := note.Sign(&note.Note{Text: text}, next.signer, previous.signer)
	if err != nil {
		return nil, fmt.Errorf("signing the handover to the next key: %w", err)
	}
	return signed, nil
}

// verifyHandover verifies that both keys signed the handover from previous to next. If not, it
// returns ErrMalformed, ErrWrongKey, or ErrSignature.
func verifyHandover(handover []byte, previous, next *Verifier) error {
	if len(handover) > maxCheckpoint {
		return fmt.Errorf("%w: the handover is too long: %d bytes", ErrMalformed, len(handover))
	}
	for _, v := range []*Verifier{previous, next} {
		opened, err := note.Open(handover, knownKeys{v})
		switch {
		case errors.As(err, new(*note.UnverifiedNoteError)):
			return fmt.Errorf("%w: the handover has no signature from %s", ErrWrongKey, v)
		case errors.As(err, new(*note.InvalidSignatureError)):
			return fmt.Errorf("%w: the signature of %s does not match the handover's text", ErrSignature, v)
		case err != nil:
			return fmt.Errorf("%w: parsing the handover: %w", ErrMalformed, err)
		case opened.Text != handoverText(previous, next):
			return fmt.Errorf("%w: the handover is not from the key %s to the key %s", ErrMalformed, previous, next)
		}
	}
	return nil
}

// ParseKeyChange parses the record of a key_rotated event. It returns ErrMalformed if the record is
// not valid. It does not verify the change; KeyHistory.Add does.
func ParseKeyChange(record pyjson.Value) (KeyChange, error) {
	var r reader
	r.allowOnly(record, "key change", "digest", "handover", "idempotency_key", "previous_key", "step", "verifier_key")
	c := KeyChange{Step: KeyStep(r.text(record.Member("step"), "step"))}
	c.Previous = r.verifier(record.Member("previous_key"), "previous_key")
	c.Next = r.verifier(record.Member("verifier_key"), "verifier_key")
	handover := record.Member("handover")
	switch c.Step {
	case KeyStepIntroduced:
		c.HandoverNote = []byte(r.text(handover, "handover"))
	case KeyStepRetired:
		if handover.Kind() != pyjson.Absent {
			r.fail("the event retires a key but has a handover, which is allowed only when a key is introduced")
		}
	default:
		r.fail(`the member "step" is %.100q, but must be "introduced" or "retired"`, c.Step)
	}
	return c, r.err
}

func (r *reader) verifier(v pyjson.Value, what string) *Verifier {
	key, err := ParseVerifier(r.text(v, what))
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, err)
	}
	return key
}

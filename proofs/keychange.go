package proofs

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"colophon/ledger/record/pyjson"
)

// KeyStep is one of the two steps in which one key of a log follows another (spec: Key rotation).
type KeyStep string

// The steps of a rotation. Between them both keys sign.
const (
	KeyIntroduced KeyStep = "introduced" // the new key signs together with the current one
	KeyRetired    KeyStep = "retired"    // only the new key signs
)

// KeyChange is the record of a key_rotated event (spec: Key rotation events).
type KeyChange struct {
	Step KeyStep
	// Previous is the replaced key, Next its successor.
	Previous, Next *Verifier
	// Handover is the note that NewHandover returns; nil in the second step.
	Handover []byte
}

// handoverTitle begins the text of a handover. It contains spaces, and origins do not, so it
// cannot begin a checkpoint.
const handoverTitle = "colophon key rotation v1\n"

func handoverText(previous, next *Verifier) string {
	return handoverTitle + previous.Name() + "\n" + previous.String() + "\n" + next.String() + "\n"
}

// NewHandover returns the signed note in which a key of a log names its successor. The
// previous key's signature authorises the next key; the next key's signature proves
// possession.
func NewHandover(previous, next *Signer) ([]byte, error) {
	if previous.Origin() != next.Origin() {
		return nil, fmt.Errorf("%w: key of %.100q, to follow one of %.100q", ErrOrigin, next.Origin(), previous.Origin())
	}
	text := handoverText(previous.Verifier(), next.Verifier())
	signed, err := note.Sign(&note.Note{Text: text}, next.signer, previous.signer)
	if err != nil {
		return nil, fmt.Errorf("sign the handover to another key: %w", err)
	}
	return signed, nil
}

// verifyHandover verifies that both keys have signed the handover from one to the other. It
// returns ErrMalformed, ErrWrongKey or ErrSignature.
func verifyHandover(handover []byte, previous, next *Verifier) error {
	if len(handover) > maxCheckpoint {
		return fmt.Errorf("%w: handover of %d bytes", ErrMalformed, len(handover))
	}
	for _, v := range []*Verifier{previous, next} {
		opened, err := note.Open(handover, knownKeys{v})
		switch {
		case errors.As(err, new(*note.UnverifiedNoteError)):
			return fmt.Errorf("%w: handover without a signature of %s", ErrWrongKey, v)
		case errors.As(err, new(*note.InvalidSignatureError)):
			return fmt.Errorf("%w: the handover's text is not what %s signed", ErrSignature, v)
		case err != nil:
			return fmt.Errorf("%w: handover: %w", ErrMalformed, err)
		case opened.Text != handoverText(previous, next):
			return fmt.Errorf("%w: the handover names other keys than %s and %s", ErrMalformed, previous, next)
		}
	}
	return nil
}

// ParseKeyChange parses the record of a key_rotated event; anything else is ErrMalformed.
// KeyHistory.Add verifies it.
func ParseKeyChange(record pyjson.Value) (KeyChange, error) {
	var r reader
	r.only(record, "key change", "digest", "handover", "idempotency_key", "previous_key", "step", "verifier_key")
	c := KeyChange{Step: KeyStep(r.text(record.Member("step"), "step"))}
	c.Previous = r.verifier(record.Member("previous_key"), "previous_key")
	c.Next = r.verifier(record.Member("verifier_key"), "verifier_key")
	handover := record.Member("handover")
	switch c.Step {
	case KeyIntroduced:
		c.Handover = []byte(r.text(handover, "handover"))
	case KeyRetired:
		if handover.Kind() != pyjson.Absent {
			r.fail("a key is retired with a handover")
		}
	default:
		r.fail("step is %.100q", c.Step)
	}
	return c, r.err
}

// verifier reads a verifier key.
func (r *reader) verifier(v pyjson.Value, what string) *Verifier {
	key, err := ParseVerifier(r.text(v, what))
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, err)
	}
	return key
}

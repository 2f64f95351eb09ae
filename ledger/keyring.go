package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
)

// Errors that say why the signing keys of a ledger cannot be used or changed.
var (
	// ErrKeyOverlap means that two keys already sign, so the previous one must be retired first.
	ErrKeyOverlap = errors.New("ledger: the previous key is still signing; retire it first")
	// ErrNoKeyOverlap means that only the newest key signs, so there is no key to retire.
	ErrNoKeyOverlap = errors.New("ledger: only the newest key signs, so there is no key to retire; rotate the key first")
	// ErrPreviousKeyMissing means that the previous key is missing during an overlap, when the previous and the
	// newest key must both sign. A checkpoint without the missing key's signature would be invalid, so
	// the ledger does not sign anything until that key is restored or retired. Reads continue.
	ErrPreviousKeyMissing = errors.New("ledger: writes are refused because the previous and the newest key must both sign, and the previous key is missing")
	// ErrExternalKeys means that the server cannot write the ledger's keys, because they come from
	// outside its data folder.
	ErrExternalKeys = errors.New("ledger: this ledger's signing keys come from outside the data folder, so the server cannot write them; add the next key at their source, restart the server, and rotate the key")
)

// SigningError reports that a ledger refuses writes because a signing key is missing or does not
// match the log. The ledger can still be read, and the host's other ledgers are not affected. The
// error text names the file and says what to do.
type SigningError struct{ Reason string }

func (e *SigningError) Error() string { return "ledger: writes are refused: " + e.Reason }

// ErrBadKey means that a stored signing key cannot be read, or is not the key that signed last. The
// ledger treats such a key as missing.
var ErrBadKey = errors.New("the signing key cannot be used")

// keyring holds the keys that currently sign and the history of all keys that have signed (spec:
// Key rotation). It is immutable.
type keyring struct {
	history *proofs.KeyHistory
	signers []*proofs.Signer // newest first; two during an overlap
	refusal error            // ErrPreviousKeyMissing if a signer is missing, which prevents all signing
}

// KeyEnvVar returns the name of the environment variable that can contain a ledger's signing
// keys.
func KeyEnvVar(ledger string) string {
	return "COLOPHON_SIGNING_KEY_" + strings.ToUpper(strings.ReplaceAll(ledger, "-", "_"))
}

// KeyHistory returns the history of the ledger's keys. Callers must not change it.
func (l *Ledger) KeyHistory() *proofs.KeyHistory { return l.sequencer.history.Load() }

// VerifierKey returns the newest key that verifies checkpoints, as a verifier key string.
func (l *Ledger) VerifierKey() string { return l.KeyHistory().CurrentKey().String() }

// ReadKeyHistory reads the history of a log's keys from its events. It returns nil for a log
// without events. The error wraps ErrDamaged if the events do not form a history.
func ReadKeyHistory(ctx context.Context, log storage.Reader) (*proofs.KeyHistory, error) {
	created, err := log.Entry(ctx, 0)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading entry 0: %w", err)
	}
	history, err := proofs.NewKeyHistoryFromEntry(created)
	if err != nil {
		return nil, fmt.Errorf("%w: reading the key in entry 0: %w", ErrDamaged, err)
	}
	for {
		claim, err := log.KeyClaim(ctx, rotationKey(history.NumChanges()+1))
		if errors.Is(err, storage.ErrNotFound) {
			return history, nil
		}
		if err != nil {
			return nil, fmt.Errorf("looking up key rotations: %w", err)
		}
		rotated, err := log.Entry(ctx, claim.Seq)
		if err != nil {
			return nil, fmt.Errorf("reading entry %d: %w", claim.Seq, err)
		}
		if err := history.AddEntry(claim.Seq, rotated); err != nil {
			return nil, fmt.Errorf("%w: reading the key change in entry %d: %w", ErrDamaged, claim.Seq, err)
		}
	}
}

// rotationKey returns the digest of the idempotency key of a log's nth key change, counted from 1.
// With this key, each change can be found quickly and cannot be logged twice.
func rotationKey(n int) proofs.Hash {
	return record.RotationIdempotencyKeyDigest(n)
}

// RotateKey logs an event that introduces next as a signing key. Starting with the checkpoint of
// that event, next and the current key both sign (spec: Key rotation). The caller must already have
// stored next durably. Otherwise, a crash could lose a key that has signed. RotateKey returns
// ErrKeyOverlap if two keys already sign; otherwise it returns any error from Submit.
func (l *Ledger) RotateKey(next *proofs.Signer, actor string) (Ack, error) {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	if err := l.signing.check(); err != nil {
		return Ack{}, fmt.Errorf("rotating the key of ledger %q: %w", l.info.Name, err)
	}
	now := l.signing.keys.Load()
	if now.history.OverlappingKey() != nil {
		return Ack{}, fmt.Errorf("rotating the key of ledger %q: %w", l.info.Name, ErrKeyOverlap)
	}
	handover, err := proofs.SignHandover(now.signers[0], next)
	if err != nil {
		return Ack{}, err
	}
	change := proofs.KeyChange{Step: proofs.KeyStepIntroduced, Previous: now.history.CurrentKey(), Next: next.Verifier(), HandoverNote: handover}
	return l.changeKeys(now, change, []*proofs.Signer{next, now.signers[0]}, actor)
}

// RetireKey logs a key change that leaves only the newest key to sign, and so ends an overlap of
// two keys. The newest key alone signs the change's own checkpoint, so the retired key can be
// missing. RetireKey returns ErrNoKeyOverlap if only one key signs, or else any error from Submit.
func (l *Ledger) RetireKey(actor string) (Ack, error) {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	if l.signing.refusal != nil {
		return Ack{}, fmt.Errorf("retiring the key of ledger %q: %w", l.info.Name, l.signing.refusal)
	}
	now := l.signing.keys.Load()
	if now.history.OverlappingKey() == nil {
		return Ack{}, fmt.Errorf("retiring the key of ledger %q: %w", l.info.Name, ErrNoKeyOverlap)
	}
	change := proofs.KeyChange{Step: proofs.KeyStepRetired, Previous: now.history.OverlappingKey(), Next: now.history.CurrentKey()}
	return l.changeKeys(now, change, now.signers[:1:1], actor)
}

// changeKeys logs a key change. The given signers sign the checkpoint of the commit that contains
// the change, and all later checkpoints. The caller must hold l.rotating.
func (l *Ledger) changeKeys(now *keyring, change proofs.KeyChange, signers []*proofs.Signer, actor string) (Ack, error) {
	rekey := func(seq uint64) (*keyring, error) {
		history := now.history.Clone()
		if err := history.Add(seq, change); err != nil {
			return nil, fmt.Errorf("changing the key of ledger %q: %w", l.info.Name, err)
		}
		return &keyring{history: history, signers: signers}, nil
	}
	// Check the change first, because an error in the sequencer would fail the whole batch.
	if _, err := rekey(l.Head().Size); err != nil {
		return Ack{}, err
	}
	v := record.NewKeyRotation(string(change.Step), change.Previous.String(), change.Next.String(), change.HandoverNote)
	key := rotationKey(now.history.NumChanges() + 1)
	e := record.EventContext{Actor: actor, Ledger: l.info.Name, IdempotencyKeyDigest: &key}
	ack, err := l.Submit(Submission{
		Body: v.AppendBodyPrefix(nil, e), KeyDigest: &key, RecordDigest: record.DigestWithKind(v.Kind, v.Digest),
		RefusalBody: func(first uint64) []byte { return v.AppendRefusal(nil, e, first) },
		rekey:       rekey,
	})
	if err == nil && ack.Outcome != OutcomeAppended {
		err = fmt.Errorf("%w: event %d already claims the idempotency key of the next rotation", ErrDamaged, ack.KeyHolderSeq)
	}
	return ack, err
}

package ledger

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
)

// Why the signing key of a ledger cannot be changed.
var (
	// ErrOverlap: another key still signs beside the newest.
	ErrOverlap = errors.New("ledger: the key before still signs too; retire it first")
	// ErrNoOverlap: no other key signs beside the newest.
	ErrNoOverlap = errors.New("ledger: no other key signs beside the newest; rotate first")
	// ErrKeyMissing: one of the two keys that sign during an overlap is not at hand, and a
	// checkpoint without its signature counts as damage. Nothing is signed until the key is
	// back, or is retired. Reads go on.
	ErrKeyMissing = errors.New("ledger: takes no writes, since two keys have to sign and the one before the newest is missing")
	// ErrKeysFixed: the keys of this host cannot be changed.
	ErrKeysFixed = errors.New("ledger: the signing keys are kept where the server cannot put one; put the next one there, start the server again, and rotate")
)

// SigningError is why a ledger signs nothing and takes no writes: a signing key is missing,
// or one that is kept does not fit the log. Reads go on, and so do the other ledgers of the
// host. Its text names the file and says what to do.
type SigningError struct{ Reason string }

func (e *SigningError) Error() string { return "ledger: takes no writes: " + e.Reason }

// errBadKey: what is kept as a signing key is none, or not the one that has signed last.
// To a log that counts as a key that is missing.
var errBadKey = errors.New("a wrong signing key")

// keyring is who signs, and who has signed (spec: Key rotation). It never changes.
type keyring struct {
	history *proofs.KeyHistory
	signers []*proofs.Signer // newest first; two during an overlap
	refusal error            // ErrKeyMissing where a signer is missing; nothing is signed then
}

// Keys is the history of the ledger's keys. It must not be changed.
func (l *Ledger) Keys() *proofs.KeyHistory { return l.keys.Load().history }

// VerifierKey is the newest key that checkpoints are verified with.
func (l *Ledger) VerifierKey() string { return l.Keys().Current().String() }

// StoredKeys is the history of a log's keys as its events tell it; nil of one without
// events. Its error wraps ErrDamaged where they tell none.
func StoredKeys(ctx context.Context, log storage.Reader) (*proofs.KeyHistory, error) {
	created, err := log.Entry(ctx, 0)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("entry 0: %w", err)
	}
	history, err := proofs.BeginKeyHistory(created)
	if err != nil {
		return nil, fmt.Errorf("%w: entry 0: %w", ErrDamaged, err)
	}
	for {
		claim, err := log.Key(ctx, rotationKey(history.Changes()+1))
		if errors.Is(err, storage.ErrNotFound) {
			return history, nil
		}
		if err != nil {
			return nil, fmt.Errorf("looking for rotations of the key: %w", err)
		}
		rotated, err := log.Entry(ctx, claim.Seq)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", claim.Seq, err)
		}
		if err := history.AddEntry(claim.Seq, rotated); err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ErrDamaged, claim.Seq, err)
		}
	}
}

// rotationKey is the digest of the idempotency key of a log's n-th change of keys, from
// 1. So each is found without a search, and none can be logged twice.
func rotationKey(n int) proofs.Hash {
	return record.RotationKey(n)
}

// recoverKeys finds out who signs. Nothing is signed if the newest key of the log is not at
// hand, if the key at hand is newer than the log, or if one that is kept does not fit it.
func (l *Ledger) recoverKeys(ctx context.Context) error {
	history, err := StoredKeys(ctx, l.store)
	if err != nil {
		return err
	}
	if history == nil && l.config.KeyFault != nil { // nothing was ever signed
		return fmt.Errorf("%w, and no signing key: %w", errNotBegun, l.config.KeyFault)
	}
	if history == nil {
		history = proofs.NewKeyHistory(l.config.Signer.Verifier())
	}
	if origin := history.Current().Name(); origin != l.info.Origin {
		return fmt.Errorf("%w: the key signs for %q, the ledger's origin is %q", ErrDamaged, origin, l.info.Origin)
	}
	ring := &keyring{history: history}
	if signer := l.config.Signer; signer != nil && signer.Origin() == l.info.Origin && !history.Trusts(signer.Verifier()) {
		l.refuse(fmt.Errorf("%w: it has signed with %s, which the store does not know: the store is older than that key, or of another ledger", ErrRollback, signer.Verifier()))
	} else if ring.signers, ring.refusal = l.signersOf(history); ring.signers == nil {
		l.refuseKeys(fmt.Sprintf("the signing key of ledger %s, with the verifier key %s, is missing or damaged. The operator puts it back as keys/%[1]s.key, or in the variable %[3]s, "+
			"and starts the server again; if it is lost, the ledger is only read: make a new one, and freeze this one", l.info.Name, history.Current(), KeyVariables{}.Variable(l.info.Name)), l.config.KeyFault)
	} else if l.config.KeyFault != nil {
		l.refuseKeys(fmt.Sprintf("a signing key of ledger %s is wrong: keys/%[1]s.key, .previous or .next, or in the variable %[2]s; the server's log says which. "+
			"The operator puts the right key there, or moves the file away, and starts the server again", l.info.Name, KeyVariables{}.Variable(l.info.Name)), l.config.KeyFault)
	}
	l.ring = ring
	l.keys.Store(ring)
	return nil
}

// signersOf are the signers of the keys that sign now; none if the newest is not at hand.
// The refusal is ErrKeyMissing if the one before the newest is not at hand.
func (l *Ledger) signersOf(history *proofs.KeyHistory) (signers []*proofs.Signer, refusal error) {
	newest := l.atHand(history.Current())
	if newest == nil {
		return nil, nil
	}
	signers = append(signers, newest)
	overlapping := history.Overlapping()
	if overlapping == nil {
		return signers, nil
	}
	if before := l.atHand(overlapping); before != nil {
		return append(signers, before), nil
	}
	refusal = fmt.Errorf("%w: put %s back in keys/%[3]s.key.previous, or in the variable that has the newest, and start the server again; or, if it is lost, end the overlap with \"colophon keys retire %[3]s\"",
		ErrKeyMissing, overlapping, l.info.Name)
	l.config.Log.Error("taking no writes: a key that has to sign is missing", "error", refusal)
	return signers, refusal
}

// refuseSettling has the ledger sign nothing, since its key files could not be put in their
// places: one of them may be of a newer log.
func (l *Ledger) refuseSettling(err error) {
	cause := "its key files could not be put in their places, and the server's log says why"
	if errors.Is(err, errBadKey) {
		cause = err.Error()
	}
	l.refuseKeys(fmt.Sprintf("ledger %s: %s. The operator mends that, and starts the server again", l.info.Name, cause), err)
}

// refuseKeys has the ledger sign nothing, since its keys do not fit its log. It is called
// before anybody else sees the ledger.
func (l *Ledger) refuseKeys(reason string, err error) {
	l.refusal = &SigningError{reason}
	l.config.Log.Error("taking no writes: the signing keys are missing or wrong", "error", reason, "cause", err)
}

// refuse has the ledger sign nothing, since its store is not what it has signed.
func (l *Ledger) refuse(err error) {
	l.refusal = err
	l.config.Log.Error("taking no writes; restore a newer copy, or begin a new ledger and freeze this one", "error", err)
}

// refuses is why the ledger signs nothing; nil if it signs.
func (l *Ledger) refuses() error {
	if l.refusal != nil {
		return l.refusal
	}
	return l.keys.Load().refusal
}

// atHand is the signer of a key, nil if there is none.
func (l *Ledger) atHand(key *proofs.Verifier) *proofs.Signer {
	for _, s := range append([]*proofs.Signer{l.config.Signer}, l.config.Signers...) {
		if s != nil && s.Verifier().String() == key.String() {
			return s
		}
	}
	return nil
}

// RotateKey has another key sign beside the present one, from its event on (spec: Key rotation).
// next must survive the loss of power before, or what is signed with it cannot go on.
// ErrOverlap if two keys sign already; otherwise the errors of Submit.
func (l *Ledger) RotateKey(next *proofs.Signer, actor string) (Ack, error) {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	if err := l.refuses(); err != nil {
		return Ack{}, fmt.Errorf("ledger %q: %w", l.info.Name, err)
	}
	now := l.keys.Load()
	if now.history.Overlapping() != nil {
		return Ack{}, fmt.Errorf("ledger %q: %w", l.info.Name, ErrOverlap)
	}
	handover, err := proofs.NewHandover(now.signers[0], next)
	if err != nil {
		return Ack{}, err
	}
	change := proofs.KeyChange{Step: proofs.KeyIntroduced, Previous: now.history.Current(), Next: next.Verifier(), Handover: handover}
	return l.changeKeys(now, change, []*proofs.Signer{next, now.signers[0]}, actor)
}

// RetireKey ends an overlap: from its event on the newest key signs alone, for ever. The
// old key is not needed for that: checkpoints of the event itself are beyond the overlap.
// ErrNoOverlap if it does already; otherwise the errors of Submit.
func (l *Ledger) RetireKey(actor string) (Ack, error) {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	if l.refusal != nil {
		return Ack{}, fmt.Errorf("ledger %q: %w", l.info.Name, l.refusal)
	}
	now := l.keys.Load()
	if now.history.Overlapping() == nil {
		return Ack{}, fmt.Errorf("ledger %q: %w", l.info.Name, ErrNoOverlap)
	}
	change := proofs.KeyChange{Step: proofs.KeyRetired, Previous: now.history.Overlapping(), Next: now.history.Current()}
	return l.changeKeys(now, change, now.signers[:1:1], actor)
}

// changeKeys logs a change, and has those signers seal its commit and all after it.
// The caller holds l.rotating.
func (l *Ledger) changeKeys(now *keyring, change proofs.KeyChange, signers []*proofs.Signer, actor string) (Ack, error) {
	rekey := func(seq uint64) (*keyring, error) {
		history := now.history.Clone()
		if err := history.Add(seq, change); err != nil {
			return nil, fmt.Errorf("changing the key of ledger %q: %w", l.info.Name, err)
		}
		return &keyring{history: history, signers: signers}, nil
	}
	// What would be refused there would take a whole batch with it.
	if _, err := rekey(l.Head().Size); err != nil {
		return Ack{}, err
	}
	v := record.NewKeyRotation(string(change.Step), change.Previous.String(), change.Next.String(), change.Handover)
	key := rotationKey(now.history.Changes() + 1)
	e := record.Event{Actor: actor, Ledger: l.info.Name, Key: &key}
	ack, err := l.Submit(Submission{
		Body: v.AppendBody(nil, e), Key: &key, Record: record.KeyedDigest(v.Kind, v.Digest),
		Refusal: func(first uint64) []byte { return v.AppendRefusal(nil, e, first) },
		rekey:   rekey,
	})
	if err == nil && ack.Outcome != Appended {
		err = fmt.Errorf("%w: event %d claims the key of the next rotation", ErrDamaged, ack.First)
	}
	return ack, err
}

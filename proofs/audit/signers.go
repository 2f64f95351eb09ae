package audit

import (
	"errors"
	"slices"

	"colophon/ledger/event"
	"colophon/proofs"
)

// signerCheck verifies the checkpoint and keeps track of the log's keys as events introduce and
// retire them.
type signerCheck struct {
	*target
	verifiers, successors []*proofs.Verifier // see Options.Verifiers and Options.Successors
	history               *proofs.KeyHistory // nil until the first event is checked
}

// open verifies the checkpoint of the head with the keys that are known before the walk.
// walked is the size of the tree that earlier walks covered.
func (c *signerCheck) open(walked uint64) error {
	checkpoint, err := proofs.OpenCheckpoint(c.head.Checkpoint, slices.Concat(c.verifiers, c.successors)...)
	if err == nil && c.history != nil { // earlier walks have established which keys sign
		checkpoint, err = c.history.OpenLaterCheckpoint(c.head.Checkpoint, walked, c.verifiers, c.successors)
	}
	switch {
	case isSignatureError(err):
		return damaged(DamageKindSignature, c.head.Size, "%v", err)
	case err != nil:
		return damaged(DamageKindCheckpoint, c.head.Size, "%v", err)
	case checkpoint.Size == 0 && !c.isStored:
		return damaged(DamageKindCheckpoint, 0, "the checkpoint covers no events, but a log is never empty: its first event creates the ledger")
	}
	c.checkpoint = checkpoint
	return nil
}

// created checks the origin in the event that creates the ledger, and begins the key history
// with the key in that event.
func (c *signerCheck) created(e *event.Body) error {
	if origin := string(e.LedgerCreation.Origin); origin != c.checkpoint.Origin {
		return damaged(DamageKindEvent, e.Seq, "the event creates a ledger with the origin %.100q, but the checkpoint's origin is %.100q", origin, c.checkpoint.Origin)
	}
	first, err := proofs.ParseVerifier(string(e.LedgerCreation.VerifierKey))
	if err != nil {
		return damaged(DamageKindEvent, e.Seq, "the event creates a ledger with the key %.200q, which is not a verifier key: %v", e.LedgerCreation.VerifierKey, err)
	}
	c.history = proofs.NewKeyHistory(first)
	return nil
}

// rotated adds a key rotation to the history.
func (c *signerCheck) rotated(e *event.Body) error {
	if err := c.history.AddRecord(e.Seq, e.Record); err != nil {
		return damaged(DamageKindEvent, e.Seq, "the event's change of the log's key is invalid: %v", err)
	}
	return nil
}

// finish checks the checkpoint against the key history. At least one trusted key must be in the
// history. Every key that must sign according to the events must have signed the checkpoint, and
// one of these keys must be a trusted key or a successor of one.
func (c *signerCheck) finish() error {
	if c.history == nil {
		return nil
	}
	if !slices.ContainsFunc(c.verifiers, c.history.Contains) {
		return damaged(DamageKindEvent, 0, "none of the trusted keys belongs to the ledger")
	}
	if _, err := c.history.OpenCheckpoint(c.head.Checkpoint, c.verifiers...); isSignatureError(err) {
		return damaged(DamageKindSignature, c.head.Size, "%v", err)
	}
	return nil // open would already have reported any other error
}

// isSignatureError reports whether err says that a checkpoint lacks a required signature.
func isSignatureError(err error) bool {
	return errors.Is(err, proofs.ErrWrongKey) || errors.Is(err, proofs.ErrSignature) || errors.Is(err, proofs.ErrRetiredKey)
}

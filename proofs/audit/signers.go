package audit

import (
	"errors"
	"slices"

	"colophon/ledger/event"
	"colophon/proofs"
)

// signerCheck verifies the checkpoint, and follows the keys of the log through its events.
type signerCheck struct {
	*target
	verifiers, successors []*proofs.Verifier // as in Options
	history               *proofs.KeyHistory // nil before the first event
}

// open verifies the checkpoint of the head with the keys that are known before the walk. walked is
// the size of the tree of earlier walks.
func (c *signerCheck) open(walked uint64) error {
	checkpoint, err := proofs.OpenCheckpoint(c.head.Checkpoint, slices.Concat(c.verifiers, c.successors)...)
	if err == nil && c.history != nil { // an earlier walk knows which keys sign
		checkpoint, err = c.history.OpenGrown(c.head.Checkpoint, walked, c.verifiers, c.successors)
	}
	switch {
	case isSignatureError(err):
		return damaged(KindSignature, c.head.Size, "%v", err)
	case err != nil:
		return damaged(KindCheckpoint, c.head.Size, "%v", err)
	case checkpoint.Size == 0 && !c.isStored:
		return damaged(KindCheckpoint, 0, "it is of an empty log, but no log is empty: its first event creates it")
	}
	c.checkpoint = checkpoint
	return nil
}

// created checks the origin of the event that creates the ledger, and begins the history with its
// key.
func (c *signerCheck) created(e *event.Body) error {
	if origin := string(e.Created.Origin); origin != c.checkpoint.Origin {
		return damaged(KindEvent, e.Seq, "it creates a ledger of origin %.100q, but the checkpoint's is %.100q", origin, c.checkpoint.Origin)
	}
	first, err := proofs.ParseVerifier(string(e.Created.VerifierKey))
	if err != nil {
		return damaged(KindEvent, e.Seq, "it creates a ledger with the key %.200q, which is not a verifier key: %v", e.Created.VerifierKey, err)
	}
	c.history = proofs.NewKeyHistory(first)
	return nil
}

// rotated follows a rotation.
func (c *signerCheck) rotated(e *event.Body) error {
	if err := c.history.AddRecord(e.Seq, e.Detail); err != nil {
		return damaged(KindEvent, e.Seq, "it changes the log's key: %v", err)
	}
	return nil
}

// finish checks that a trusted key is one of the log's, that every key in force according to the
// events signs the checkpoint, and that a trusted key, or one that follows it, is among these.
func (c *signerCheck) finish() error {
	if c.history == nil {
		return nil
	}
	if !slices.ContainsFunc(c.verifiers, c.history.Trusts) {
		return damaged(KindEvent, 0, "it creates a ledger with a key that is not trusted, and that no trusted key follows")
	}
	if _, err := c.history.OpenCheckpoint(c.head.Checkpoint, c.verifiers...); isSignatureError(err) {
		return damaged(KindSignature, c.head.Size, "%v", err)
	}
	return nil // open found no other error
}

// isSignatureError reports whether a checkpoint lacks a signature that it must have.
func isSignatureError(err error) bool {
	return errors.Is(err, proofs.ErrWrongKey) || errors.Is(err, proofs.ErrSignature) || errors.Is(err, proofs.ErrRetired)
}

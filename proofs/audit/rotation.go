package audit

import (
	"errors"
	"slices"

	"colophon/proofs"
)

// checkRotation follows a change of keys.
func (w *walk) checkRotation(e *decoded) error {
	if err := w.history.AddRecord(e.seq, e.Detail); err != nil {
		return e.damaged("it changes the log's key: %v", err)
	}
	return nil
}

// checkKeys checks, at the end of the walk, that a trusted key is one of the log's, and
// that every key which the events put in force signs the checkpoint, a trusted key or one
// that follows it among them.
func (w *walk) checkKeys() error {
	if w.history == nil {
		return nil
	}
	if !slices.ContainsFunc(w.options.Verifiers, w.history.Trusts) {
		return damaged(KindEvent, 0, "it creates a ledger with a key that is not the one given, and that none of those given follows")
	}
	_, err := w.history.OpenCheckpoint(w.head.Checkpoint, w.options.Verifiers...)
	if isSignature(err) {
		return damaged(KindSignature, w.head.Size, "%v", err)
	}
	return nil // what else may be wrong with it was looked at before
}

// isSignature reports whether a checkpoint is not signed by whom it should be.
func isSignature(err error) bool {
	return errors.Is(err, proofs.ErrWrongKey) || errors.Is(err, proofs.ErrSignature) || errors.Is(err, proofs.ErrRetired)
}

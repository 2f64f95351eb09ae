package audit

import (
	"errors"
	"fmt"

	"colophon/proofs"
)

// beginKeys begins the history of the log's keys with its first.
func (w *walk) beginKeys(first string) error {
	key, err := proofs.ParseVerifier(first)
	if err != nil {
		return fmt.Errorf("the first key: %w", err)
	}
	w.logKeys = proofs.NewKeyHistory(key)
	return nil
}

// checkRotation checks that the log's key changes as an event says (2.9): in turn, and
// to a key that the one before has named.
func (w *walk) checkRotation(e *event) error {
	change, err := proofs.ParseKeyChange(e.record)
	if err != nil {
		return e.damaged("it changes the log's key, and does not say how: %v", err)
	}
	if w.logKeys == nil {
		return nil
	}
	if err := w.logKeys.Add(e.seq, change); err != nil {
		return e.damaged("it changes the log's key: %v", err)
	}
	return nil
}

// checkSigner checks that the checkpoint is signed by a key that the log has at its
// size, and not by one that it has retired.
func (w *walk) checkSigner() error {
	if w.logKeys == nil {
		return nil
	}
	_, err := proofs.OpenCheckpoint(w.head.Checkpoint, w.logKeys.Verifiers()...)
	if errors.Is(err, proofs.ErrRetired) || errors.Is(err, proofs.ErrWrongKey) {
		return damaged(KindSignature, w.head.Size, "%v", err)
	}
	return err
}

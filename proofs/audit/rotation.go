package audit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// KeyEvent is an event that says who signs: the first, or a change of keys (2.9).
type KeyEvent struct {
	Seq    uint64
	Record string // of the event, canonical JSON
}

// checkRotation follows a change of keys.
func (w *walk) checkRotation(e *event) error {
	if w.history == nil {
		return e.damaged("it changes the key of a log that has none")
	}
	change, err := proofs.ParseKeyChange(e.record)
	if err == nil {
		err = w.history.Add(e.seq, change)
	}
	if err != nil {
		return e.damaged("it changes the log's key: %v", err)
	}
	w.noteKeys(e)
	return nil
}

// noteKeys remembers an event that says who signs.
func (w *walk) noteKeys(e *event) {
	w.keys = append(slices.Clip(w.keys), KeyEvent{e.seq, string(bytes.Clone(e.record.Raw()))})
}

// resumeKeys follows the keys of an earlier walk.
func (w *walk) resumeKeys(events []KeyEvent) error {
	for i, e := range events {
		var d pyjson.Document
		if err := d.Parse([]byte(e.Record)); err != nil {
			return fmt.Errorf("audit: key event %d: %w", e.Seq, err)
		}
		if i == 0 {
			first, err := proofs.ParseVerifier(string(d.Root().Member("verifier_key").Text()))
			if err != nil {
				return fmt.Errorf("audit: key event %d: %w", e.Seq, err)
			}
			w.history = proofs.NewKeyHistory(first)
			continue
		}
		change, err := proofs.ParseKeyChange(d.Root())
		if err == nil {
			err = w.history.Add(e.Seq, change)
		}
		if err != nil {
			return fmt.Errorf("audit: key event %d: %w", e.Seq, err)
		}
	}
	w.keys = events
	return nil
}

// checkKeys checks, at the end of the walk, that a key which is trusted is one of the
// log's, and that one of these signs the checkpoint: one that was retired before it
// does not.
func (w *walk) checkKeys() error {
	if w.history == nil {
		return nil
	}
	if !slices.ContainsFunc(w.options.Verifiers, w.history.Trusts) {
		return damaged(KindEvent, 0, "it creates a ledger with a key that is not the one given, and that none of those given follows")
	}
	_, err := proofs.OpenCheckpoint(w.head.Checkpoint, w.history.Verifiers()...)
	if isSignature(err) {
		return damaged(KindSignature, w.head.Size, "%v", err)
	}
	return nil // what else may be wrong with it was looked at before
}

// isSignature reports whether a checkpoint is not signed by whom it should be.
func isSignature(err error) bool {
	return errors.Is(err, proofs.ErrWrongKey) || errors.Is(err, proofs.ErrSignature) || errors.Is(err, proofs.ErrRetired)
}

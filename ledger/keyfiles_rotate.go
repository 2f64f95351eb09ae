package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"colophon/internal/safefile"
	"colophon/proofs"
	"colophon/storage"
)

// NextPath returns the path of the file that holds a ledger's next key.
func (k KeyFiles) NextPath(ledger string) string { return k.Path(ledger) + ".next" }

// PreviousPath returns the path of the file that holds a ledger's previous key, while the
// previous and the newest key both sign.
func (k KeyFiles) PreviousPath(ledger string) string { return k.Path(ledger) + ".previous" }

// Next implements RotatingKeys. It refuses a file that others can read.
func (k KeyFiles) Next(ledger string, _ *proofs.KeyHistory) (*proofs.Signer, error) {
	return readKey(k.NextPath(ledger))
}

// StageNext implements RotatingKeys.
func (k KeyFiles) StageNext(ledger string, signer *proofs.Signer) error {
	return k.write(ledger, k.NextPath(ledger), signer)
}

// Others implements RotatingKeys. It refuses files that others can read.
func (k KeyFiles) Others(ledger string) ([]*proofs.Signer, error) {
	var list []*proofs.Signer
	for _, path := range []string{k.NextPath(ledger), k.PreviousPath(ledger)} {
		signer, err := readKey(path)
		switch {
		case err == nil:
			list = append(list, signer)
		case !errors.Is(err, storage.ErrNotFound):
			return nil, err
		}
	}
	return list, nil
}

// Reconcile implements RotatingKeys. If it is interrupted, the next call finishes the work: it
// removes no file before the key is in another file or retired.
func (k KeyFiles) Reconcile(ledger string, keys *proofs.KeyHistory) error {
	if err := k.removeRetired(ledger, keys); err != nil {
		return err
	}
	present, err := k.Load(ledger)
	if err != nil {
		return err
	}
	if !keys.Trusts(present.Verifier()) {
		return fmt.Errorf("%w: %s holds a key that the ledger's log does not know: the log is older than the key. Restore a newer copy of the log", errBadKey, pathInData(k.Path(ledger)))
	}
	if newest := keys.Current().String(); present.Verifier().String() != newest {
		next, err := k.Next(ledger, keys)
		if err != nil {
			return err
		}
		if next.Verifier().String() != newest {
			return fmt.Errorf("%w: the ledger signs with %s: neither %s nor %s holds that key", errBadKey, newest, pathInData(k.Path(ledger)), pathInData(k.NextPath(ledger)))
		}
		if err := k.promote(ledger, keys, present); err != nil {
			return err
		}
	}
	return k.removeRetired(ledger, keys)
}

// promote moves the next key to the place of the current one, and keeps the current one as the
// previous key.
func (k KeyFiles) promote(ledger string, keys *proofs.KeyHistory, present *proofs.Signer) error {
	previous, err := readKey(k.PreviousPath(ledger))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if err := os.Link(k.Path(ledger), k.PreviousPath(ledger)); err != nil {
			return err
		}
		if err := safefile.SyncDir(k.Dir); err != nil {
			return err
		}
	case err != nil:
		return err
	case previous.Verifier().String() == present.Verifier().String():
		// An interrupted call has stored it.
	case !retired(keys, present.Verifier()):
		return fmt.Errorf("%w: %s and %s hold two keys that are not retired, and neither is the newest; move the one away that the log does not sign with",
			errBadKey, pathInData(k.Path(ledger)), pathInData(k.PreviousPath(ledger)))
	}
	if err := os.Rename(k.NextPath(ledger), k.Path(ledger)); err != nil {
		return err
	}
	return safefile.SyncDir(k.Dir)
}

// removeRetired removes the previous key once the log says that it is retired. A retired key
// must sign nothing more, and verification does not need it. A history that is older than the
// keys never reports a key as retired that still signs.
func (k KeyFiles) removeRetired(ledger string, keys *proofs.KeyHistory) error {
	previous, err := readKey(k.PreviousPath(ledger))
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !keys.Trusts(previous.Verifier()) {
		return fmt.Errorf("%w: %s holds a key that is none of the ledger's; move it away", errBadKey, pathInData(k.PreviousPath(ledger)))
	}
	if !retired(keys, previous.Verifier()) {
		return nil
	}
	if err := os.Remove(k.PreviousPath(ledger)); err != nil {
		return err
	}
	return safefile.SyncDir(k.Dir)
}

// retired reports whether the history says that a key signs nothing more.
func retired(keys *proofs.KeyHistory, key *proofs.Verifier) bool {
	return slices.ContainsFunc(keys.Replaced(), func(replaced proofs.LogKey) bool {
		_, ended := replaced.Verifier.SignedUpTo()
		return ended && replaced.Verifier.String() == key.String()
	})
}

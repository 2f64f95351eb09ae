package keystore

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"colophon/internal/safefile"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
)

// NextKeyPath returns the path of the file that contains the key for a ledger's next rotation.
func (k KeyFiles) NextKeyPath(name string) string { return k.Path(name) + ".next" }

// PreviousKeyPath returns the path of the file that holds a ledger's previous key, while the
// previous and the newest key both sign.
func (k KeyFiles) PreviousKeyPath(name string) string { return k.Path(name) + ".previous" }

// LoadNext implements ledger.RotatingKeyStore. It refuses a file that others can read.
func (k KeyFiles) LoadNext(name string, _ *proofs.KeyHistory) (*proofs.Signer, error) {
	return readKey(k.NextKeyPath(name))
}

// StageNext implements ledger.RotatingKeyStore.
func (k KeyFiles) StageNext(name string, signer *proofs.Signer) error {
	return k.write(name, k.NextKeyPath(name), signer)
}

// LoadOtherSigners implements ledger.RotatingKeyStore. It refuses files that others can read.
func (k KeyFiles) LoadOtherSigners(name string) ([]*proofs.Signer, error) {
	var list []*proofs.Signer
	for _, path := range []string{k.NextKeyPath(name), k.PreviousKeyPath(name)} {
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

// Reconcile implements ledger.RotatingKeyStore. If it is interrupted, the next call finishes the work.
// Reconcile removes a key file only after the key is in another file or retired.
func (k KeyFiles) Reconcile(name string, keys *proofs.KeyHistory) error {
	if err := k.removeRetired(name, keys); err != nil {
		return err
	}
	present, err := k.Load(name)
	if err != nil {
		return err
	}
	if !keys.Contains(present.Verifier()) {
		return fmt.Errorf("%w: the key in %s is not in the ledger's log, so the log is older than the key; restore a newer copy of the log", ledger.ErrBadKey, pathInData(k.Path(name)))
	}
	if newest := keys.CurrentKey().String(); present.Verifier().String() != newest {
		next, err := k.LoadNext(name, keys)
		if err != nil {
			return err
		}
		if next.Verifier().String() != newest {
			return fmt.Errorf("%w: the ledger signs with %s, but neither %s nor %s contains that key", ledger.ErrBadKey, newest, pathInData(k.Path(name)), pathInData(k.NextKeyPath(name)))
		}
		if err := k.promote(name, keys, present); err != nil {
			return err
		}
	}
	return k.removeRetired(name, keys)
}

// promote makes the next key the current key, and the current key the previous key.
func (k KeyFiles) promote(name string, keys *proofs.KeyHistory, present *proofs.Signer) error {
	previous, err := readKey(k.PreviousKeyPath(name))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if err := os.Link(k.Path(name), k.PreviousKeyPath(name)); err != nil {
			return err
		}
		if err := safefile.SyncDir(k.Dir); err != nil {
			return err
		}
	case err != nil:
		return err
	case previous.Verifier().String() == present.Verifier().String():
		// An interrupted call has already stored the previous key.
	case !retired(keys, present.Verifier()):
		return fmt.Errorf("%w: the keys in %s and %s are not retired, and neither is the newest; remove the key that does not sign the log",
			ledger.ErrBadKey, pathInData(k.Path(name)), pathInData(k.PreviousKeyPath(name)))
	}
	if err := os.Rename(k.NextKeyPath(name), k.Path(name)); err != nil {
		return err
	}
	return safefile.SyncDir(k.Dir)
}

// removeRetired removes the previous key once the log shows that it is retired. A retired key must
// not sign again, and verification does not need it. Even an outdated history never shows a key as
// retired while the key still signs.
func (k KeyFiles) removeRetired(name string, keys *proofs.KeyHistory) error {
	previous, err := readKey(k.PreviousKeyPath(name))
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !keys.Contains(previous.Verifier()) {
		return fmt.Errorf("%w: the key in %s does not belong to the ledger; remove the file", ledger.ErrBadKey, pathInData(k.PreviousKeyPath(name)))
	}
	if !retired(keys, previous.Verifier()) {
		return nil
	}
	if err := os.Remove(k.PreviousKeyPath(name)); err != nil {
		return err
	}
	return safefile.SyncDir(k.Dir)
}

// retired reports whether the history shows that a key no longer signs.
func retired(keys *proofs.KeyHistory, key *proofs.Verifier) bool {
	return slices.ContainsFunc(keys.ReplacedKeys(), func(replaced proofs.LogKey) bool {
		_, ended := replaced.Verifier.RetirementSize()
		return ended && replaced.Verifier.String() == key.String()
	})
}

package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"colophon/proofs"
	"colophon/storage"
)

// checkUnique returns ErrOriginInUse or ErrKeyInUse if another ledger of the host has the given
// origin or one of the given keys, because two logs that share an origin or a key are a fork. It
// checks the keys in the other ledgers' logs and the keys stored for those ledgers. Once the host
// is shared, the caller must hold h.creating.
func (h *Host) checkUnique(name, origin string, keys ...*proofs.Verifier) error {
	for _, l := range h.Ledgers() {
		if l.Name() == name {
			continue
		}
		if l.info.Origin == origin {
			return fmt.Errorf("ledger %q: origin %[3]s belongs to ledger %[2]q: %[4]w", name, l.Name(), origin, ErrOriginInUse)
		}
		theirs, err := h.keysOf(l)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if slices.ContainsFunc(theirs, key.SameKey) {
				return fmt.Errorf("ledger %q: key %s belongs to ledger %q: %w", name, key, l.Name(), ErrKeyInUse)
			}
		}
	}
	return nil
}

// keysOf returns the keys that an open ledger has signed with or could sign with.
func (h *Host) keysOf(l *Ledger) ([]*proofs.Verifier, error) {
	keys := l.KeyHistory().Verifiers()
	rotating, ok := h.keys.(RotatingKeyStore)
	if !ok {
		return keys, nil
	}
	kept, err := rotating.LoadOtherSigners(l.Name())
	if err != nil && !errors.Is(err, ErrBadKey) { // a key that cannot be read cannot sign
		return nil, fmt.Errorf("reading the signing keys of ledger %q: %w", l.Name(), err)
	}
	return append(slices.Clone(keys), verifiers(kept)...), nil
}

// checkOpening applies checkUnique to a stored ledger before it is opened.
func (h *Host) checkOpening(ctx context.Context, store storage.Store, config Config) error {
	info, err := store.Info(ctx)
	if err != nil {
		return err
	}
	keys := verifiers(config.OtherSigners)
	if config.Signer != nil {
		keys = append(keys, config.Signer.Verifier())
	}
	history, err := ReadKeyHistory(ctx, store)
	if err != nil && !errors.Is(err, ErrDamaged) { // damage is reported by Open
		return fmt.Errorf("reading the keys of ledger %q: %w", info.Name, err)
	}
	if err == nil && history != nil {
		keys = append(keys, history.Verifiers()...)
	}
	return h.checkUnique(info.Name, info.Origin, keys...)
}

func verifiers(signers []*proofs.Signer) []*proofs.Verifier {
	list := make([]*proofs.Verifier, 0, len(signers))
	for _, s := range signers {
		list = append(list, s.Verifier())
	}
	return list
}

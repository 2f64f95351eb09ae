package ledger

import (
	"context"
	"errors"
	"fmt"

	"colophon/proofs"
	"colophon/storage"
)

// RotateKey adds a new signing key to the named ledger. The new key signs alongside the current
// key. RotateKey uses the stored next key if there is one, and otherwise generates and stores one.
// It returns ErrUnknownLedger, ErrExternalKeys, ErrKeyInUse, ErrKeyOverlap, or any error from Submit. If a
// rotation is interrupted before its event is logged, the next call completes it. If it is
// interrupted later, the next start of the server completes it.
func (h *Host) RotateKey(ctx context.Context, name, actor string) (Ack, error) {
	return h.changeKeys(ctx, name, func(l *Ledger, keys RotatingKeyStore) (Ack, error) {
		// Check before nextKey generates and stores a key.
		if err := l.CheckWritable(ctx); err != nil {
			return Ack{}, fmt.Errorf("changing the keys of ledger %q: %w", name, err)
		}
		if l.KeyHistory().OverlappingKey() != nil {
			return Ack{}, fmt.Errorf("rotating the key of ledger %q: %w", name, ErrKeyOverlap)
		}
		next, err := nextKey(keys, l)
		if err != nil {
			return Ack{}, err
		}
		if err := h.checkUnique(name, l.info.Origin, next.Verifier()); err != nil {
			return Ack{}, err
		}
		return l.RotateKey(next, actor)
	})
}

// RetireKey retires the older of the two keys that have been signing since RotateKey. It works even
// if the private part of that key is missing. It returns ErrUnknownLedger, ErrExternalKeys, ErrNoKeyOverlap, or
// any error from Submit.
func (h *Host) RetireKey(ctx context.Context, name, actor string) (Ack, error) {
	return h.changeKeys(ctx, name, func(l *Ledger, _ RotatingKeyStore) (Ack, error) { return l.RetireKey(actor) })
}

// changeKeys changes the keys of a ledger, and then updates the stored keys to match its log.
func (h *Host) changeKeys(ctx context.Context, name string, change func(*Ledger, RotatingKeyStore) (Ack, error)) (Ack, error) {
	if err := ctx.Err(); err != nil {
		return Ack{}, err
	}
	h.creating.Lock()
	defer h.creating.Unlock()
	l, err := h.Ledger(name)
	if err != nil {
		return Ack{}, err
	}
	keys, ok := h.keys.(RotatingKeyStore)
	if !ok {
		return Ack{}, fmt.Errorf("changing the keys of ledger %q: %w", name, ErrExternalKeys)
	}
	ack, err := change(l, keys)
	if err != nil {
		return Ack{}, err
	}
	if err := keys.Reconcile(name, l.KeyHistory()); err != nil {
		return Ack{}, fmt.Errorf("the keys of ledger %q changed with event %d, but updating the stored keys failed; the server will retry at the next start: %w", name, ack.Seq, err)
	}
	return ack, nil
}

// nextKey returns the signer for the next rotation. An operator or an interrupted rotation may
// have stored it; if not, nextKey generates and stores one.
func nextKey(keys RotatingKeyStore, l *Ledger) (*proofs.Signer, error) {
	next, err := keys.LoadNext(l.Name(), l.KeyHistory())
	if err == nil || !errors.Is(err, storage.ErrNotFound) {
		return next, err
	}
	if next, err = proofs.GenerateKey().Signer(l.info.Origin); err != nil {
		return nil, err
	}
	if err := keys.StageNext(l.Name(), next); err != nil {
		return nil, fmt.Errorf("storing the next key of ledger %q: %w", l.Name(), err)
	}
	return next, nil
}

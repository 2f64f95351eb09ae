package ledger

import (
	"context"
	"errors"
	"fmt"

	"colophon/proofs"
	"colophon/storage"
)

// RotateKey has a new key of a ledger sign beside the present one: the one that is kept
// for that, or one that is made. The error is ErrUnknown, ErrKeysFixed, ErrKeyInUse,
// ErrOverlap or one of Submit. What was cut short goes on when it is asked for again, or, once the
// event is in the log, at the next start.
func (h *Host) RotateKey(ctx context.Context, name, actor string) (Ack, error) {
	return h.changeKeys(ctx, name, func(l *Ledger, keys RotatingKeys) (Ack, error) {
		// Before a key is made.
		if err := l.Writable(ctx); err != nil {
			return Ack{}, fmt.Errorf("changing the keys of ledger %q: %w", name, err)
		}
		if l.Keys().Overlapping() != nil {
			return Ack{}, fmt.Errorf("ledger %q: %w", name, ErrOverlap)
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

// RetireKey ends the overlap that RotateKey began. The error is ErrUnknown,
// ErrKeysFixed, ErrNoOverlap or one of Submit. The key that is retired may be missing.
func (h *Host) RetireKey(ctx context.Context, name, actor string) (Ack, error) {
	return h.changeKeys(ctx, name, func(l *Ledger, _ RotatingKeys) (Ack, error) { return l.RetireKey(actor) })
}

// changeKeys changes the keys of a ledger and puts those that are kept in their places.
func (h *Host) changeKeys(ctx context.Context, name string, change func(*Ledger, RotatingKeys) (Ack, error)) (Ack, error) {
	if err := ctx.Err(); err != nil {
		return Ack{}, err
	}
	h.creating.Lock()
	defer h.creating.Unlock()
	l, err := h.Ledger(name)
	if err != nil {
		return Ack{}, err
	}
	keys, ok := h.keys.(RotatingKeys)
	if !ok {
		return Ack{}, fmt.Errorf("ledger %q: %w", name, ErrKeysFixed)
	}
	ack, err := change(l, keys)
	if err != nil {
		return Ack{}, err
	}
	if err := keys.Settle(name, l.Keys()); err != nil {
		return Ack{}, fmt.Errorf("the keys of ledger %q have changed, as event %d says; putting them in their places, which the next start does too: %w", name, ack.Seq, err)
	}
	return ack, nil
}

// nextKey is the signer that is to follow: one that is kept, by an operator or by a
// rotation that was cut short, or a new one.
func nextKey(keys RotatingKeys, l *Ledger) (*proofs.Signer, error) {
	next, err := keys.Next(l.Name(), l.Keys())
	if err == nil || !errors.Is(err, storage.ErrNotFound) {
		return next, err
	}
	if next, err = proofs.GenerateKey().Signer(l.info.Origin); err != nil {
		return nil, err
	}
	if err := keys.StageNext(l.Name(), next); err != nil {
		return nil, fmt.Errorf("keeping the next key of ledger %q: %w", l.Name(), err)
	}
	return next, nil
}

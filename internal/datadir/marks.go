package datadir

import (
	"context"
	"errors"

	"colophon/ledger/highwater"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// CheckHighWaterMark compares a ledger with its high-water mark. The damage is nil if the ledger has no
// mark or still contains everything that the mark covers.
func CheckHighWaterMark(ctx context.Context, data, name string, store storage.Reader, keys []*proofs.Verifier) (*audit.Damage, error) {
	mark, err := HighWaterMarkFiles(data).Mark(name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = highwater.Check(ctx, store, mark, keys...)
	if !errors.Is(err, highwater.ErrRollback) {
		return nil, err
	}
	head, headErr := store.Head(ctx)
	return &audit.Damage{Kind: audit.DamageKindRollback, Seq: head.Size, Message: err.Error()}, headErr
}

package ledger

import (
	"context"
	"fmt"

	"colophon/proofs"
	"colophon/storage"
)

// Store returns a reader of the ledger. Reads see the last durable state and never wait for
// the sequencer.
func (l *Ledger) Store() storage.Reader { return l.store }

func (l *Ledger) tileReader(ctx context.Context) proofs.TileReader {
	return func(level uint8, index uint64) ([]byte, error) { return l.store.Tile(ctx, level, index) }
}

// Prover returns a prover for the tree at head and at every smaller size.
func (l *Ledger) Prover(ctx context.Context, head *Head) *proofs.Prover {
	return proofs.NewProver(head.view, l.cache, l.tileReader(ctx))
}

// Checkpoint returns the signed checkpoint of a size up to the head's. Checkpoints of smaller
// sizes are not stored but signed again with the current keys. The bytes are the same as
// before unless the keys have changed.
func (l *Ledger) Checkpoint(ctx context.Context, head *Head, size uint64) ([]byte, error) {
	if size == head.Size {
		return head.Checkpoint, nil
	}
	if err := l.signingRefusal(); err != nil {
		return nil, fmt.Errorf("checkpoint of size %d: %w", size, err)
	}
	root, err := l.Prover(ctx, head).Root(size)
	if err != nil {
		return nil, fmt.Errorf("root at size %d: %w", size, err)
	}
	return proofs.SignCheckpoint(proofs.Checkpoint{Origin: l.info.Origin, Size: size, Root: root}, l.keys.Load().signers...)
}

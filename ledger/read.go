package ledger

import (
	"context"
	"fmt"

	"colophon/proofs"
	"colophon/storage"
)

// Store reads what the ledger holds. Reads see the last durable state and never
// wait for the sequencer.
func (l *Ledger) Store() storage.Reader { return l.store }

func (l *Ledger) tileReader(ctx context.Context) proofs.TileReader {
	return func(level uint8, index uint64) ([]byte, error) { return l.store.Tile(ctx, level, index) }
}

// Prover makes proofs at head and at every size before it.
func (l *Ledger) Prover(ctx context.Context, head *Head) *proofs.Prover {
	return proofs.NewProver(head.view, l.cache, l.tileReader(ctx))
}

// Checkpoint is the signed checkpoint for a size up to the head's. One for an
// earlier size says nothing that the tree at head does not: it is signed anew, by the
// keys of now, and comes out as it was, byte for byte, while those are the same.
func (l *Ledger) Checkpoint(ctx context.Context, head *Head, size uint64) ([]byte, error) {
	if size == head.Size {
		return head.Checkpoint, nil
	}
	if err := l.refuses(); err != nil {
		return nil, fmt.Errorf("checkpoint of size %d: %w", size, err)
	}
	root, err := l.Prover(ctx, head).Root(size)
	if err != nil {
		return nil, fmt.Errorf("root at size %d: %w", size, err)
	}
	return proofs.SignCheckpoint(proofs.Checkpoint{Origin: l.info.Origin, Size: size, Root: root}, l.keys.Load().signers...)
}

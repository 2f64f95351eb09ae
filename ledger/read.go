package ledger

import (
	"context"
	"fmt"

	"colophon/proofs"
	"colophon/storage"
)

// reader reads the stored log and proves what it reads.
type reader struct {
	storage.Reader
	cache *proofs.TileCache
}

func (r reader) tiles(ctx context.Context) proofs.TileReader {
	return func(level uint8, index uint64) ([]byte, error) { return r.Tile(ctx, level, index) }
}

// prover returns a prover for the tree at head and at every smaller size.
func (r reader) prover(ctx context.Context, head *Head) *proofs.Prover {
	return proofs.NewProver(head.view, r.cache, r.tiles(ctx))
}

// Store returns a reader of the ledger. Reads see the last durable state and never wait for
// the sequencer.
func (l *Ledger) Store() storage.Reader { return l.store }

// Prover returns a prover for the tree at head and at every smaller size.
func (l *Ledger) Prover(ctx context.Context, head *Head) *proofs.Prover {
	return l.reader.prover(ctx, head)
}

// Checkpoint returns the signed checkpoint of a size up to the head's. Checkpoints of smaller
// sizes are not stored but signed again with the current keys. The bytes are the same as
// before unless the keys have changed.
func (l *Ledger) Checkpoint(ctx context.Context, head *Head, size uint64) ([]byte, error) {
	if size == head.Size {
		return head.Checkpoint, nil
	}
	if err := l.signing.check(); err != nil {
		return nil, fmt.Errorf("checkpoint of size %d: %w", size, err)
	}
	root, err := l.Prover(ctx, head).Root(size)
	if err != nil {
		return nil, fmt.Errorf("root at size %d: %w", size, err)
	}
	return proofs.SignCheckpoint(proofs.Checkpoint{Origin: l.info.Origin, Size: size, Root: root}, l.signing.keys.Load().signers...)
}

// Package highwater compares a stored log with a checkpoint that the ledger signed earlier (spec:
// High-water mark).
package highwater

import (
	"context"
	"errors"
	"fmt"

	"colophon/proofs"
	"colophon/storage"
)

// ErrRollback means that events that the ledger has signed are missing from the store or differ
// from the signed ones. The ledger does not sign anything until an operator has decided how to
// continue. Reads continue, because the content of the store is still valid.
var ErrRollback = errors.New("ledger: writes are refused because the store does not match the ledger's signed checkpoints")

// Check compares a stored log with mark, which is an earlier checkpoint of the log from the
// high-water mark or an auditor. It returns ErrRollback if the log does not extend the checkpoint.
func Check(ctx context.Context, log storage.Reader, mark []byte, keys ...*proofs.Verifier) error {
	head, err := log.Head(ctx)
	if err != nil {
		return fmt.Errorf("reading the log's head: %w", err)
	}
	seen, err := proofs.OpenCheckpoint(mark, keys...)
	switch {
	case errors.Is(err, proofs.ErrWrongKey):
		return fmt.Errorf("%w: the store, which has %d events, does not contain the key that signed one of the ledger's checkpoints; the store is outdated or belongs to another ledger: %w",
			ErrRollback, head.Size, err)
	case err != nil:
		return fmt.Errorf("%w: reading the last signed checkpoint: %w", ErrRollback, err)
	case seen.Size > head.Size:
		return fmt.Errorf("%w: the ledger has signed %d events, but the store has only %d; the store is an older copy", ErrRollback, seen.Size, head.Size)
	case seen.Size == 0:
		return nil
	}
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	cache := proofs.NewTileCache(64)
	tree, err := proofs.OpenTree(head.Size, read, cache)
	if err != nil {
		return fmt.Errorf("reading the tree edge at size %d: %w", head.Size, err)
	}
	root, err := proofs.NewProver(tree.Snapshot(), cache, read).Root(seen.Size)
	if err != nil {
		return fmt.Errorf("computing the root at size %d: %w", seen.Size, err)
	}
	if root != seen.Root {
		return fmt.Errorf("%w: the ledger has signed the root %[3]x for its first %[2]d events, but the store has the root %[4]x; the store is a fork", ErrRollback, seen.Size, seen.Root, root)
	}
	return nil
}

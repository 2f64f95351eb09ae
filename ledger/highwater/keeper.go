package highwater

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"colophon/proofs"
	"colophon/storage"
)

// Store stores the high-water mark of each ledger (spec: High-water mark), which is the checkpoint
// of the largest tree that the ledger has signed. Restoring the database must not restore the
// marks, or a rollback would go unnoticed.
type Store interface {
	// Mark returns the checkpoint as a signed note, or storage.ErrNotFound.
	Mark(ledger string) ([]byte, error)
	// SetMark replaces the checkpoint atomically.
	SetMark(ledger string, checkpoint []byte) error
}

// MinWriteInterval is the minimum time between two writes of a mark.
const MinWriteInterval = time.Second

// Keeper writes and checks the high-water mark of one ledger.
type Keeper struct {
	Store  Store  // where the mark is stored
	Ledger string // name of the ledger
	Logger *slog.Logger
	// Head returns the size of the tree at the durable head, and its signed checkpoint.
	Head func() (size uint64, checkpoint []byte)
}

// Check compares the stored log with the mark. It returns ErrRollback if the store is not the
// newest copy of the log, and another error if the check itself fails.
func (k *Keeper) Check(ctx context.Context, log storage.Reader, keys ...*proofs.Verifier) error {
	mark, err := k.Store.Mark(k.Ledger)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if size, _ := k.Head(); size > 0 {
			k.Logger.Warn("no high-water mark exists, so the server cannot tell whether this store is an older copy; keeping a mark from now on", "size", size)
		}
		return nil
	case err != nil:
		return fmt.Errorf("checking the high-water mark: %w", err)
	}
	err = Check(ctx, log, mark, keys...)
	if err != nil && !errors.Is(err, ErrRollback) {
		return fmt.Errorf("checking the high-water mark: %w", err)
	}
	return err
}

// Run writes the mark after it receives a token from moved, but at most once per MinWriteInterval.
// It writes the mark one last time after stopped is closed. A mark is never ahead of the durable
// head. If a write fails, Run logs the error and puts a token into moved, whose capacity is 1, to
// try again.
func (k *Keeper) Run(moved chan struct{}, stopped <-chan struct{}) {
	var written uint64
	for open := true; open; {
		select {
		case <-moved:
		case <-stopped:
			open = false
		}
		size, checkpoint := k.Head()
		if size == written {
			continue
		}
		if err := k.Store.SetMark(k.Ledger, checkpoint); err != nil {
			k.Logger.Error("cannot write the high-water mark, which lags behind the signed head; retrying", "error", err)
			select {
			case moved <- struct{}{}:
			default:
			}
		} else {
			written = size
		}
		rest := time.NewTimer(MinWriteInterval)
		select {
		case <-rest.C:
		case <-stopped:
		}
		rest.Stop()
	}
}

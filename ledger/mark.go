package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colophon/proofs"
	"colophon/storage"
)

// ErrRollback: the ledger has signed more than its store holds, or something else, and
// signs nothing until an operator has said how it goes on. Reads go on: what the store
// holds is as true as it was.
var ErrRollback = errors.New("ledger: takes no writes, since its store is not what it has signed")

// Marks keeps the high-water mark of each ledger (spec: High-water mark): the largest checkpoint
// that it has signed, in a place that is not restored with the store.
type Marks interface {
	// Mark is the checkpoint, a signed note; storage.ErrNotFound if there is none.
	Mark(ledger string) ([]byte, error)
	// SetMark replaces it, whole or not at all.
	SetMark(ledger string, checkpoint []byte) error
}

// markRest is the time between two writes of a mark.
const markRest = time.Second

// CheckMark holds a stored log against a checkpoint that was signed for it before: by a
// mark, or by whoever has seen it. ErrRollback if the log does not continue that.
func CheckMark(ctx context.Context, log storage.Reader, mark []byte, keys ...*proofs.Verifier) error {
	head, err := log.Head(ctx)
	if err != nil {
		return fmt.Errorf("reading the head: %w", err)
	}
	seen, err := proofs.OpenCheckpoint(mark, keys...)
	switch {
	case errors.Is(err, proofs.ErrWrongKey):
		return fmt.Errorf("%w: a checkpoint of it is signed with a key that the store, of %d events, does not know: the store is older, or of another ledger: %w",
			ErrRollback, head.Size, err)
	case err != nil:
		return fmt.Errorf("%w: the checkpoint that it has signed last cannot be read: %w", ErrRollback, err)
	case seen.Size > head.Size:
		return fmt.Errorf("%w: it has signed %d events, the store has %d: the store is an older copy", ErrRollback, seen.Size, head.Size)
	case seen.Size == 0:
		return nil
	}
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	cache := proofs.NewTileCache(64)
	tree, err := proofs.OpenTree(head.Size, read, cache)
	if err != nil {
		return fmt.Errorf("tree edge at size %d: %w", head.Size, err)
	}
	root, err := proofs.NewProver(tree.Snapshot(), cache, read).Root(seen.Size)
	if err != nil {
		return fmt.Errorf("root at size %d: %w", seen.Size, err)
	}
	if root != seen.Root {
		return fmt.Errorf("%w: of its first %d events it has signed the root %x, those in the store have %x: it is a fork", ErrRollback, seen.Size, seen.Root, root)
	}
	return nil
}

// recoverMark decides whether the ledger may sign: not where its mark says that the
// store is not the newest. What is wrong with the place of the marks is an error.
func (l *Ledger) recoverMark(ctx context.Context) error {
	if l.config.Marks == nil || l.refusal != nil {
		return nil
	}
	mark, err := l.config.Marks.Mark(l.info.Name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if size := l.Head().Size; size > 0 {
			l.config.Log.Warn("there is no high-water mark: whether this store is the newest copy is not known; one is kept from now on", "size", size)
		}
		return nil
	case err != nil:
		return fmt.Errorf("high-water mark: %w", err)
	}
	err = CheckMark(ctx, l.store, mark, l.ring.history.Verifiers()...)
	if err != nil && !errors.Is(err, ErrRollback) {
		return fmt.Errorf("high-water mark: %w", err)
	}
	if err != nil {
		l.refuse(err)
	}
	return nil
}

// keepMark writes the mark when the head has moved, at most once in a while, and a last
// time when the sequencer has ended. A mark is never ahead of what is durable.
func (l *Ledger) keepMark() {
	defer close(l.markKept)
	var written uint64
	for open := true; open; {
		select {
		case <-l.moved:
		case <-l.done:
			open = false
		}
		head := l.Head()
		if head.Size == written {
			continue
		}
		if err := l.config.Marks.SetMark(l.info.Name, head.Checkpoint); err != nil {
			l.config.Log.Error("the high-water mark is behind what is signed", "error", err)
			select {
			case l.moved <- struct{}{}: // to try again after the rest, be there a commit or not
			default:
			}
		} else {
			written = head.Size
		}
		rest := time.NewTimer(markRest)
		select {
		case <-rest.C:
		case <-l.done:
		}
		rest.Stop()
	}
}

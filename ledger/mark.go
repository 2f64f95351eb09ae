package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"colophon/ledger/highwater"
	"colophon/proofs"
	"colophon/storage"
)

// MarkStore stores the high-water mark of each ledger (spec: High-water mark), which is the largest
// checkpoint that the ledger has signed. Restoring the database must not restore the marks.
type MarkStore interface {
	// Mark returns the checkpoint as a signed note, or storage.ErrNotFound.
	Mark(ledger string) ([]byte, error)
	// SetMark replaces the checkpoint atomically.
	SetMark(ledger string, checkpoint []byte) error
}

// markInterval is the minimum time between two writes of a mark.
const markInterval = time.Second

// markKeeper writes the high-water mark of a ledger as its head moves.
type markKeeper struct {
	config  *Config
	name    string // name of the ledger
	head    *atomic.Pointer[Head]
	moved   chan struct{}   // holds a token when head has moved
	stopped <-chan struct{} // closed when head will not move again
	done    chan struct{}   // closed after the mark has been written for the last time
}

// check compares the stored log with the mark. It returns highwater.ErrRollback if the store is not the
// newest copy of the log, and another error if the check itself fails.
func (k *markKeeper) check(ctx context.Context, log storage.Reader, keys ...*proofs.Verifier) error {
	mark, err := k.config.Marks.Mark(k.name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if size := k.head.Load().Size; size > 0 {
			k.config.Log.Warn("there is no high-water mark, so this store could be an older copy; from now on, the server keeps a mark", "size", size)
		}
		return nil
	case err != nil:
		return fmt.Errorf("checking the high-water mark: %w", err)
	}
	err = highwater.Check(ctx, log, mark, keys...)
	if err != nil && !errors.Is(err, highwater.ErrRollback) {
		return fmt.Errorf("checking the high-water mark: %w", err)
	}
	return err
}

// recoverMark starts keeping a mark unless the ledger does not sign anything. If the mark shows
// that the store is not the newest copy, it makes the ledger stop signing.
func (l *Ledger) recoverMark(ctx context.Context) error {
	if l.config.Marks == nil || l.signing.refusal != nil {
		return nil
	}
	marks := &markKeeper{
		config: &l.config, name: l.info.Name, head: &l.sequencer.head,
		moved: l.sequencer.headMoved, stopped: l.queue.ended, done: make(chan struct{}),
	}
	switch err := marks.check(ctx, l.store, l.KeyHistory().Verifiers()...); {
	case errors.Is(err, highwater.ErrRollback):
		l.signing.refuse(err)
	case err != nil:
		return err
	default:
		l.marks = marks
	}
	return nil
}

// recoverShown compares the store of a ledger that is only read with the ledger's mark, if it keeps
// one.
func recoverShown(ctx context.Context, l *Ledger) error {
	if !l.config.MarkShown || l.config.Marks == nil {
		return nil
	}
	marks := &markKeeper{config: &l.config, name: l.info.Name, head: &l.sequencer.head}
	if err := marks.check(ctx, l.store, l.KeyHistory().Verifiers()...); err != nil {
		return fmt.Errorf("opening ledger %q: %w", l.info.Name, err)
	}
	markShown(l, true)
	return nil
}

// markShown stores the published head of a ledger that is only read as its mark, at most once per
// markInterval unless last is true. Even a mark that lags behind reveals a rollback to an earlier
// head.
func markShown(l *Ledger, last bool) {
	if !l.config.MarkShown || l.config.Marks == nil || !last && time.Since(l.marked) < markInterval {
		return
	}
	l.marked = time.Now()
	if err := l.config.Marks.SetMark(l.info.Name, l.Head().Checkpoint); err != nil {
		l.config.Log.Error("the high-water mark of the published head could not be written and lags behind", "error", err)
	}
}

// run writes the mark after the head has moved, at most once per markInterval, and one last time
// after the head can no longer move. A mark is never ahead of the durable head.
func (k *markKeeper) run() {
	defer close(k.done)
	var written uint64
	for open := true; open; {
		select {
		case <-k.moved:
		case <-k.stopped:
			open = false
		}
		head := k.head.Load()
		if head.Size == written {
			continue
		}
		if err := k.config.Marks.SetMark(k.name, head.Checkpoint); err != nil {
			k.config.Log.Error("the high-water mark could not be written and lags behind the signed head; trying again", "error", err)
			signal(k.moved) // try again after the interval, even without a commit
		} else {
			written = head.Size
		}
		rest := time.NewTimer(markInterval)
		select {
		case <-rest.C:
		case <-k.stopped:
		}
		rest.Stop()
	}
}

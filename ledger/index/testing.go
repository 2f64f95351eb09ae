package index

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger/index/rowstore"
)

// CurrentFold returns the state from which f adds events to the index. f must not be running.
func (f *Follower) CurrentFold() *Fold { return &f.fold }

// FoldBatch folds one batch. It reports whether there were any events.
func (f *Follower) FoldBatch(ctx context.Context) (more bool, err error) {
	more, err = f.foldBatch(ctx)
	return more, errors.Join(err, f.flushPending())
}

// CatchUp folds the rest of the log, but stops if the disk is nearly full.
func (f *Follower) CatchUp(ctx context.Context) error { return f.catchUp(ctx) }

// DeferWork makes derivers defer their work, as they do while an index is rebuilt.
func (f *Fold) DeferWork() { f.deferWork = true }

// FoldEntry folds an entry as if it were the next one in the log, without storing the result.
func (f *Fold) FoldEntry(ctx context.Context, entry []byte) (err error) {
	var e Event
	if err := e.decode(entry); err != nil {
		return fmt.Errorf("%w: %w", ErrNotEvent, err)
	}
	(&aheadReader{preparers: f.preparers, seq: f.state.size}).prepare(&e)
	f.Rows.BeginBatch(rowstore.Limits{})
	err = f.event(ctx, &e)
	f.Counters.FlushPending()
	return errors.Join(err, f.Rows.EndBatch())
}

// ErrNotEvent means that an entry cannot be decoded as an event.
var ErrNotEvent = errors.New("the entry is not an event")

// HasWaiter reports whether a caller of ReadSnapshotPart is waiting for f to reach size.
func HasWaiter(f *Follower, size uint64) bool { return f.requestedSize.Load() == size }

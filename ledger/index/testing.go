package index

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger/index/rowstore"
)

// Stopped adds a follower that does not run, where its ledger's index ends: FoldBatch and
// Take fold. It is for tests that look at a fold while it is under way.
func (s *Store) FollowStopped(ctx context.Context, name string, log Log) (*Follower, error) {
	f, err := s.addStopped(name, log)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f, f.begin(ctx)
}

// Fold is what the derivers of a follower work with that does not run.
func (f *Follower) Fold() *Fold { return &f.fold }

// FoldBatch folds one batch, and reports whether there were events for it.
func (f *Follower) FoldBatch(ctx context.Context) (more bool, err error) {
	more, err = f.foldBatch(ctx)
	return more, errors.Join(err, f.flushPending())
}

// CatchUp folds all that the log has, as long as there is room on the disk.
func (f *Follower) CatchUp(ctx context.Context) error { return f.catchUp(ctx) }

// Defer has deferring derivers leave their work until they are told to do it, as they do
// while an index is rebuilt.
func (f *Fold) Defer() { f.deferWork = true }

// Take folds an entry as though it was the next of the log, and stores nothing.
func (f *Fold) Take(ctx context.Context, entry []byte) (err error) {
	var e Event
	if err := e.decode(entry); err != nil {
		return fmt.Errorf("%w: %w", ErrNotEvent, err)
	}
	(&aheadReader{preparers: f.preparers, seq: f.state.size}).prepare(&e)
	f.Rows.Begin(rowstore.Limits{})
	err = f.event(ctx, &e)
	f.Counters.CountPending()
	return errors.Join(err, f.Rows.End())
}

// ErrNotEvent: an entry cannot be decoded.
var ErrNotEvent = errors.New("not an event")

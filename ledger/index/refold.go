package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// noLimit is the limit of a follower that folds its whole log.
const noLimit = math.MaxUint64

// Refold empties a ledger's part of the index and folds the first size events of its log into it.
// After each batch it calls progress with the number of events folded so far. The returned follower
// does not run, but it answers queries; it must be closed before the ledger is followed again.
// Refold returns storage.ErrNoSpace if the disk is nearly full. If Refold is interrupted, the next
// follower of the ledger folds the log from the beginning.
func (s *Store) Refold(ctx context.Context, name string, log Log, size uint64, progress func(done uint64)) (*Follower, error) {
	f, err := s.addStopped(name, log)
	if err != nil {
		return nil, fmt.Errorf("rebuilding the index of ledger %q: %w", name, err)
	}
	f.limit = size
	if err := f.refold(ctx, progress); err != nil {
		f.Close()
		return nil, fmt.Errorf("the rebuild of the index of ledger %q stopped at size %d: %w", name, f.Size(), err)
	}
	return f, nil
}

// AddStoppedFollower adds a follower that does not run in the background. Its views show what is
// stored. Tests use it with FoldBatch and CatchUp to inspect a fold in progress.
func (s *Store) AddStoppedFollower(ctx context.Context, name string, log Log) (*Follower, error) {
	f, err := s.addStopped(name, log)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f, f.begin(ctx)
}

// addStopped adds a follower that does not run in the background.
func (s *Store) addStopped(name string, log Log) (*Follower, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.add(name, log)
	if err != nil {
		return nil, err
	}
	f.cancel = func() {}
	close(f.done)
	return f, nil
}

// reset empties the ledger's part of the index and prepares to fold from the beginning of the log.
func (f *Follower) reset() error {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	if err := f.resetFold(); err != nil {
		return err
	}
	if err := f.empty(); err != nil {
		return err
	}
	f.publish(f.snapshot())
	return nil
}

// errLogEnds means that the log has fewer events than Refold was asked to fold.
var errLogEnds = errors.New("the log ends before the requested size")

func (f *Follower) refold(ctx context.Context, progress func(done uint64)) (err error) {
	if _, err := f.store.acquire(); err != nil {
		return err
	}
	defer f.store.rows.Release()
	if err := f.reset(); err != nil {
		return err
	}
	// Flush the deletion of the old rows, so that they cannot reappear after a crash.
	if err := f.store.rows.Flush(); err != nil {
		return fmt.Errorf("emptying the index: %w", err)
	}
	defer func() { err = errors.Join(err, f.flushPending()) }()
	f.fold.deferWork = true
	for f.fold.state.size < f.limit {
		if err := f.requireSpace(); err != nil {
			return err
		}
		more, err := f.foldBatch(ctx)
		if err != nil {
			return err
		}
		if !more {
			return cmp.Or(ctx.Err(), errLogEnds)
		}
		if f.fold.pending() >= f.store.config.MaxDeferredGroups {
			if err := f.storeDeferred(ctx); err != nil {
				return err
			}
		}
		progress(f.fold.state.size)
	}
	if err := f.storeDeferred(ctx); err != nil {
		return err
	}
	f.fold.deferWork = false
	if f.fold.state.size == 0 {
		return nil
	}
	return f.storeSome() // also stores a cursor that marks the index as finished
}

// requireSpace returns storage.ErrNoSpace if the disk is nearly full.
func (f *Follower) requireSpace() error {
	room, err := f.store.rows.HasSpace()
	if err == nil && !room {
		err = fmt.Errorf("%w: the index needs %d bytes of free disk space", storage.ErrNoSpace, rowstore.MinFreeBytes)
	}
	return err
}

// storeDeferred does all deferred work and stores the results. A rebuild calls it rarely, because
// group ranks that are stored early would soon change again.
func (f *Follower) storeDeferred(ctx context.Context) error {
	for f.fold.pending() > 0 {
		if err := errors.Join(ctx.Err(), f.requireSpace()); err != nil {
			return err
		}
		if err := f.storeSome(); err != nil {
			return err
		}
	}
	return nil
}

// storeSome does part of the deferred work, about MaxDeferredGroups/8 items, and starts to store the
// results.
func (f *Follower) storeSome() error {
	rows := &f.fold.Rows
	f.beginBatch()
	f.fold.flushDeferred(1 + f.store.config.MaxDeferredGroups/8)
	err := rows.Err
	if err == nil {
		err = f.commit()
	}
	return errors.Join(err, rows.EndBatch())
}

package index

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Follower keeps one ledger's part of the index up with its log. Its methods
// are safe for concurrent use.
type Follower struct {
	store  *Store
	name   string
	log    Log
	number uint64 // of the log, in this process

	wake        chan struct{} // holds a token when the head may have moved
	readerWaits chan struct{} // holds a token when a reader has begun to wait
	cancel      context.CancelFunc
	done        chan struct{} // closed when the goroutine has ended
	err         error         // why it ended by itself, or cannot begin; set before done is closed
	limit       uint64        // it folds so many events and no more; does not change
	folded      time.Time     // when the last fold began; of the goroutine

	// By start and the goroutine, and by who replaces the engine while neither uses it;
	// read by all.
	published atomic.Pointer[snapshot]

	// Of start, then of the goroutine.
	fold   Fold
	flight *flight // nil if there is none
	// replaced is how many engines were replaced before the one that it met last.
	replaced int
}

// snapshot is a state that has been stored. It never changes.
type snapshot struct {
	cursor
	counters.Readings
	keys       rowstore.Keyspace // of the ledger
	superseded chan struct{}     // closed when there is a later one
}

func newFollower(s *Store, name string, log Log) *Follower {
	f := &Follower{
		store:       s,
		name:        name,
		log:         logReader{log},
		number:      logs.Add(1),
		wake:        make(chan struct{}, 1),
		readerWaits: make(chan struct{}, 1),
		done:        make(chan struct{}),
		limit:       noLimit,
		fold:        Fold{Counters: counters.New(counters.NewCounts(s.begin))},
	}
	f.publish(f.snapshot())
	return f
}

// start takes up the fold where the index ends and starts the goroutine. The caller
// holds the store's mu.
func (f *Follower) start(ctx context.Context) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.store.rows.CountRunning(1)
	replaced, err := f.store.acquire()
	if err == nil {
		f.replaced = replaced
		err = f.begin(ctx)
		f.store.rows.Release()
	}
	go f.run(ctx, err)
}

// run folds whatever the log has, and again at each wake, until it is closed or
// meets an error; err is one that was met before. Where the index is being replaced it
// is woken when that is done.
func (f *Follower) run(ctx context.Context, err error) {
	defer func() {
		f.store.rows.CountRunning(-1)
		close(f.done)
	}()
	if err == nil {
		err = f.catchUp(ctx)
	}
	for err == nil || errors.Is(err, ErrRebuilding) || isDamage(err) && f.store.rows.ReportDamage(err, f.replaced) {
		if err = f.pause(ctx); err == nil {
			err = f.catchUp(ctx)
		}
	}
	if ctx.Err() != nil {
		return // closed: what a reader says of that is no news
	}
	f.err = fmt.Errorf("the index of ledger %q stopped at size %d: %w", f.name, f.Size(), err)
	f.store.config.Rows.Log.Error("the index has stopped following its log", "ledger", f.name, "size", f.Size(), "error", err)
}

// rest returns when the head may have moved, and the last fold is a while ago or somebody
// wants to know: a fold for every commit would cost more than the commit.
func (f *Follower) pause(ctx context.Context) error {
	select {
	case <-f.wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	if left := f.store.config.Pause - time.Since(f.folded); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-f.readerWaits:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.folded = time.Now()
	return nil
}

// begin makes a fold that goes on where the index ends. The engine is acquired, and the
// caller holds the store's mu.
func (f *Follower) begin(ctx context.Context) error {
	if err := f.resetFold(); err != nil {
		return err
	}
	if err := f.restore(ctx); err != nil {
		return err
	}
	f.publish(f.snapshot())
	return nil
}

// renew makes a fold that has not begun.
func (f *Follower) resetFold() error {
	keys, err := f.store.rows.KeyspaceOf(f.name)
	if err != nil {
		return noSpace(err)
	}
	f.release()
	f.flight = nil
	f.fold = Fold{
		Log:          f.log,
		Rows:         f.store.rows.NewRows(keys),
		Counters:     counters.New(counters.NewCounts(f.store.begin)),
		Cache:        f.cache(),
		FilterBytes:  &f.store.filterBytes,
		chunks:       newChunks(),
		flushPending: f.flushPending,
	}
	f.fold.addDerivers(f.store.config.Families)
	return nil
}

// cache is what is kept of the log's events.
func (f *Follower) cache() EventCache { return EventCache{f.store.events, f.number} }

// release gives back what derivers hold that are not needed any more.
func (f *Follower) release() {
	for _, d := range f.fold.derivers {
		if d, ok := d.(Releaser); ok {
			d.Release()
		}
	}
}

// restore loads the stored state. Where it is not one of this log, because the
// store was restored from elsewhere, the ledger's part of the index is emptied.
func (f *Follower) restore(ctx context.Context) error {
	stored, err := readCursor(&f.fold.Rows, f.fold.Rows.Keys)
	if err == nil && stored.size == 0 {
		return nil
	}
	var kept counters.Counts
	if err == nil {
		kept, err = counters.Read(&f.fold.Rows, f.store.begin)
	}
	var why string // it cannot be used; empty if it can
	switch {
	case errors.Is(err, rowstore.ErrDamaged):
		why = err.Error()
	case err != nil:
		return err
	default:
		if why, err = f.conflictWithLog(ctx, stored); err != nil {
			return err
		}
	}
	if why != "" {
		f.store.config.Rows.Log.Warn("the index cannot be gone on with, it is built anew", "ledger", f.name, "reason", why)
		return f.empty()
	}
	f.fold.state, f.fold.Counters = stored, counters.New(kept)
	return nil
}

// conflictWithLog is why a state cannot be one of this log; empty if it is one.
// An error means that the log cannot tell.
func (f *Follower) conflictWithLog(ctx context.Context, s cursor) (string, error) {
	head, err := f.log.Head(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log's head: %w", err)
	}
	if s.size > head.Size {
		return fmt.Sprintf("it has %d events, the log has %d", s.size, head.Size), nil
	}
	last, err := f.log.Entry(ctx, s.size-1)
	if err != nil {
		return "", fmt.Errorf("reading the last event that is indexed: %w", err)
	}
	if hash := sha256.Sum256(last); hash != s.tip {
		return fmt.Sprintf("event %d is %x in the index and %x in the log", s.size-1, s.tip, hash), nil
	}
	return "", nil
}

// empty deletes the ledger's part of the index. The caller holds the store's mu, and
// nothing of the ledger has been read yet.
func (f *Follower) empty() error {
	keys, err := f.store.rows.Empty(f.name, f.fold.Rows.Keys)
	if err != nil {
		return fmt.Errorf("emptying the index: %w", noSpace(err))
	}
	f.fold.Rows.Keys = keys
	return nil
}

// snapshot is the state as it is now, to be published.
func (f *Follower) snapshot() *snapshot {
	return &snapshot{f.fold.state, f.fold.Counters.Published(), f.fold.Rows.Keys, make(chan struct{})}
}

// publish shows a state that has been stored, and wakes who waits for it.
func (f *Follower) publish(next *snapshot) {
	if before := f.published.Swap(next); before != nil {
		close(before.superseded)
	}
}

// Name is the ledger's name.
func (f *Follower) Name() string { return f.name }

// Wake tells the follower that the log's head has moved. It never blocks.
func (f *Follower) Wake() {
	notify(f.wake)
}

// notify puts a token into a channel that has room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Size is the number of events folded: queries can be answered as of any size
// up to it.
func (f *Follower) Size() uint64 { return f.published.Load().size }

// Counted is the ledger's counters, and the size that they are as of.
func (f *Follower) Counted() (counters.Counts, uint64) {
	now := f.published.Load()
	return now.Counts(), now.size
}

// Wait returns when that many events are folded. It fails when ctx is done,
// with Err when the follower has stopped before, and with ErrClosed when it was
// closed before. Waiting wakes a follower that had no room on the disk, and one that
// pauses.
func (f *Follower) Wait(ctx context.Context, size uint64) error {
	for {
		now := f.published.Load()
		if now.size >= size {
			return nil
		}
		f.Wake()
		notify(f.readerWaits)
		select {
		case <-now.superseded:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the index of ledger %q to reach size %d: %w", f.name, size, ctx.Err())
		case <-f.done:
			// The last thing it did may have been to get there.
			if f.Size() >= size {
				return nil
			}
			if f.err != nil {
				return f.err
			}
			return fmt.Errorf("waiting for the index of ledger %q to reach size %d: %w", f.name, size, ErrClosed)
		}
	}
}

// Err is why the follower has stopped by itself, nil while it runs and when it
// was closed. What it folded until then can still be queried.
func (f *Follower) Err() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// Close stops the follower and waits until it has. Queries go on to be answered
// until the store is closed.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
	if f.store.remove(f) {
		f.release()
	}
}

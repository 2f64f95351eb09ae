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
	"colophon/storage"
)

// Follower keeps one ledger's part of the index up to date with its log. Its methods are safe
// for concurrent use.
type Follower struct {
	store  *Store
	name   string
	log    Log
	number uint64 // identifies the log in the event cache; unique within this process

	wake        chan struct{} // holds a token when the head may have moved
	readerWaits chan struct{} // holds a token when a reader has started to wait
	cancel      context.CancelFunc
	done        chan struct{} // closed when the goroutine has stopped
	err         error         // the error that stopped the goroutine; set before done is closed
	limit       uint64        // maximum number of events to fold
	folded      time.Time     // when the last fold began; used by the goroutine
	// requestedSize is the size at which the batch must end, because a caller of ReadSnapshotPart is waiting for a
	// part at that size. It is 0 if no caller is waiting.
	requestedSize atomic.Uint64

	recent recentEntries // entries of this process's commits that the follower has not read yet

	// published is written by start and by the goroutine, even while the engine is being replaced.
	// All goroutines read it.
	published atomic.Pointer[snapshot]

	// The fields below are used by start, and then only by the goroutine.
	fold   Fold
	flight *flight // nil if no batch is being stored
	// replaced is the number of times that the store's rows had been replaced when start or the
	// latest catchUp acquired the store.
	replaced int
	// interrupted means that the log could not be read, so the fold may be ahead of what is stored.
	interrupted bool
}

// snapshot is a stored state of the index. It never changes.
type snapshot struct {
	cursor
	counters.Values
	keys       rowstore.Keyspace // the ledger's keyspace
	superseded chan struct{}     // closed when a later snapshot is published
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
		recent:      recentEntries{bytesLeft: &s.recentBytesLeft},
		limit:       noLimit,
		fold:        Fold{Counters: counters.New(counters.NewCounts(s.begin))},
	}
	f.publish(f.snapshot())
	return f
}

// start restores the fold and starts the goroutine. It is called with the store's mu held.
func (f *Follower) start(ctx context.Context) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.store.rows.AddRunningFollowers(1)
	replaced, err := f.store.acquire()
	if err == nil {
		f.replaced = replaced
		err = f.begin(ctx)
		f.store.rows.Release()
	}
	go f.run(ctx, err)
}

// run folds the log, and continues after each Wake, until the follower is closed or an error
// occurs. err is the error from start, if any. While the index is being replaced, run does not
// fold; it continues at the first Wake after that.
func (f *Follower) run(ctx context.Context, err error) {
	defer func() {
		f.store.rows.AddRunningFollowers(-1)
		f.recent.close()
		close(f.done)
	}()
	if err == nil {
		fetchSnapshot(ctx, f)
		err = f.catchUp(ctx)
	}
	for err == nil || errors.Is(err, ErrRebuilding) || awaitLog(ctx, f, err) || isDamage(err) && f.store.rows.ReportDamage(err, f.replaced) {
		if err = f.pause(ctx); err == nil {
			err = f.catchUp(ctx)
		}
	}
	if ctx.Err() != nil {
		return // the follower was closed, which explains the error
	}
	f.err = fmt.Errorf("the index of ledger %q stopped at size %d: %w", f.name, f.Size(), err)
	f.store.config.RowStore.Logger.Error("the index no longer follows the log; queries will not see newer events until the server restarts", "ledger", f.name, "size", f.Size(), "error", err)
}

// retryPause is the time between two attempts of a follower to read a log that is unavailable.
const retryPause = 500 * time.Millisecond

// awaitLog reports whether err means that the log is temporarily unavailable. If so, it schedules a
// Wake after retryPause, and the next catchUp continues where the stored index ends.
func awaitLog(ctx context.Context, f *Follower, err error) bool {
	if ctx.Err() != nil || !errors.Is(err, errLog) || !errors.Is(err, storage.ErrUnavailable) {
		return false
	}
	if !f.interrupted {
		f.store.config.RowStore.Logger.Warn("the index is waiting, because the log cannot be read", "ledger", f.name, "size", f.Size(), "error", err)
	}
	f.interrupted = true
	time.AfterFunc(retryPause, f.Wake)
	return true
}

// pause waits for a Wake. It then waits until ResolvedConfig.MinFoldInterval has passed since the
// last fold or a reader is waiting, because folding after every commit would cost more than the
// commits themselves. After an interruption, pause waits only for the Wake, because a waiting
// reader signals only once.
func (f *Follower) pause(ctx context.Context) error {
	select {
	case <-f.wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	if left := f.store.config.MinFoldInterval - time.Since(f.folded); left > 0 && !f.interrupted {
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

// begin creates a fold that continues where the stored index ends. It is called with the engine
// acquired and the store's mu held.
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

// resetFold creates a fold that has not yet read its state.
func (f *Follower) resetFold() error {
	keys, err := f.store.rows.KeyspaceOf(f.name)
	if err != nil {
		return noSpace(err)
	}
	f.release()
	f.flight = nil
	f.fold = Fold{
		Log:             f.log,
		Rows:            f.store.rows.NewWriter(keys),
		Counters:        counters.New(counters.NewCounts(f.store.begin)),
		FilterBytesLeft: &f.store.filterBytes,
		chunks:          newChunks(),
		flushPending:    f.flushPending,
	}
	f.fold.addDerivers(f.store.config.Families)
	return nil
}

// release frees the resources of the derivers.
func (f *Follower) release() {
	for _, d := range f.fold.derivers {
		if d, ok := d.(Releaser); ok {
			d.Release()
		}
	}
}

// restore loads the stored state. If the state does not belong to this log, for example after the
// log was restored from a backup, restore empties the ledger's part of the index.
func (f *Follower) restore(ctx context.Context) error {
	stored, err := readCursor(&f.fold.Rows, f.fold.Rows.Keyspace)
	if err == nil && stored.size == 0 {
		return nil
	}
	var kept counters.Counts
	if err == nil {
		kept, err = counters.Read(&f.fold.Rows, f.store.begin)
	}
	var why string // why the state cannot be used, or ""
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
		f.store.config.RowStore.Logger.Warn("the stored index is damaged or does not match the log; rebuilding it", "ledger", f.name, "reason", why)
		return f.empty()
	}
	f.fold.state, f.fold.Counters = stored, counters.New(kept)
	return nil
}

// conflictWithLog returns the reason why the state s cannot belong to this log, or "" if it can. It
// returns an error if the log cannot be read.
func (f *Follower) conflictWithLog(ctx context.Context, s cursor) (string, error) {
	head, err := f.log.Head(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log's head: %w", err)
	}
	if s.size > head.Size {
		return fmt.Sprintf("the index covers %d events, but the log has only %d", s.size, head.Size), nil
	}
	last, err := f.log.Entry(ctx, s.size-1)
	if err != nil {
		return "", fmt.Errorf("reading the last indexed event: %w", err)
	}
	if hash := sha256.Sum256(last); hash != s.tip {
		return fmt.Sprintf("the hash of event %d is %x in the index, but %x in the log", s.size-1, s.tip, hash), nil
	}
	return "", nil
}

// empty deletes the ledger's part of the index. The caller must hold the store's mu, and the
// fold must not have read any rows yet.
func (f *Follower) empty() error {
	keys, err := f.store.rows.ClearKeyspace(f.name, f.fold.Rows.Keyspace)
	if err != nil {
		return fmt.Errorf("emptying the index: %w", noSpace(err))
	}
	f.fold.Rows.Keyspace = keys
	return nil
}

// snapshot returns the fold's current state for publication.
func (f *Follower) snapshot() *snapshot {
	return &snapshot{f.fold.state, f.fold.Counters.Snapshot(), f.fold.Rows.Keyspace, make(chan struct{})}
}

// publish makes a stored state visible and wakes all goroutines that wait for a newer state.
func (f *Follower) publish(next *snapshot) {
	if before := f.published.Swap(next); before != nil {
		close(before.superseded)
	}
}

// Name returns the ledger's name.
func (f *Follower) Name() string { return f.name }

// Wake tells the follower that the log's head may have moved. It never blocks.
func (f *Follower) Wake() {
	notify(f.wake)
}

// AddCommit is like Wake, and also gives the follower the entries that this process has just committed.
// first is the seq of the first entry. The follower reads from the log what it does not keep in memory. It
// retains the entries, so the caller must not modify them. AddCommit never waits for a fold.
func (f *Follower) AddCommit(first uint64, entries [][]byte) {
	f.recent.add(first, entries)
	f.Wake()
}

// notify puts a token into a channel of capacity 1, unless the channel already has one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Size returns the number of folded events. Queries can be answered at any size up to it.
func (f *Follower) Size() uint64 { return f.published.Load().size }

// Counts returns the ledger's counters, and the tree size at which they are valid.
func (f *Follower) Counts() (counters.Counts, uint64) {
	now := f.published.Load()
	return now.Counts(), now.size
}

// WaitForSize blocks until at least size events are folded. It returns an error if ctx is done, if the
// follower stopped because of an error (see Err), or if the follower was closed (ErrClosed). It wakes
// a follower that is pausing or waiting for disk space.
func (f *Follower) WaitForSize(ctx context.Context, size uint64) error {
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
			// The index may have reached the size just before the goroutine stopped.
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

// Err returns the error that stopped the follower. It returns nil if the follower is still running
// or was stopped by Close. The folded events can still be queried after an error.
func (f *Follower) Err() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// Close stops the follower and waits for its goroutine. Queries are still answered until the store is
// closed.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
	if f.store.remove(f) {
		f.release()
	}
}

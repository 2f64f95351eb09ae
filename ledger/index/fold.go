package index

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"colophon/ledger/event"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Fold adds events to the index, one by one. It belongs to the follower's goroutine.
type Fold struct {
	Log  Log             // log of the ledger
	Rows rowstore.Writer // reads and writes rows of the index
	// state and Counters already include the current batch.
	state    cursor
	Counters counters.Counters
	recorded recorded

	// maxBatchEvents is the maximum number of events in the current batch. MaxBatchEffects is the
	// maximum number of effects of any one event in that batch.
	maxBatchEvents  uint64
	MaxBatchEffects int

	waitsForSpace bool // there was not enough disk space for the last batch

	chunks       chan *chunk  // free chunks for reading ahead
	decoded      []*chunk     // decoded chunks that still contain events to fold, in log order; the first one may be partly folded
	flushPending func() error // Follower.flushPending

	derivers  []Deriver
	preparers []Preparer
	deferring []Deferrer
	// deferWork tells foldBatch not to do the work that derivers have deferred to the end of the
	// batch. Refold sets it, and does the deferred work of many batches at once.
	deferWork bool

	// KeysRead counts the keys that derivers read through iterators.
	KeysRead int
	// FilterBytesLeft is the amount of memory, in bytes, that the filters of all ledgers may still
	// allocate.
	FilterBytesLeft *atomic.Int64

	decoder event.Decoder
	value   []byte // scratch
}

// ErrBatchNotEmpty means that the event must be the first of its batch.
var ErrBatchNotEmpty = errors.New("index: the event must be the first in its batch")

// ErrBatchFull means that some effects of the event did not fit into the batch. The fold then
// stores the batch and folds the event again for the remaining effects. Views do not see the
// event before it is complete.
var ErrBatchFull = errors.New("index: the event's effects do not fit in one batch")

// RequireEmptyBatch returns nil if all earlier events are stored, so that a deriver can
// iterate over stored rows. If not, it returns ErrBatchNotEmpty, and the event is folded again
// as the first of a batch. Call it before writing anything for the event. It blocks while the
// previous batch is being stored.
func (f *Fold) RequireEmptyBatch() error {
	if !f.Rows.IsEmpty() {
		return ErrBatchNotEmpty
	}
	return f.flushPending()
}

// catchUp folds all events up to the head, or until the disk is nearly full. It starts a new read
// of the log for each batch, because otherwise a long fold would prevent the log's database from
// freeing files.
func (f *Follower) catchUp(ctx context.Context) (err error) {
	replaced, err := f.store.acquire()
	if err != nil {
		return err
	}
	defer f.store.rows.Release()
	f.replaced = replaced
	if f.interrupted || !f.store.rows.Owns(&f.fold.Rows) {
		f.store.mu.Lock()
		err := f.begin(ctx)
		f.store.mu.Unlock()
		if err != nil {
			return err
		}
		f.interrupted = false
	}
	defer func() { err = errors.Join(err, f.flushPending()) }()
	for {
		if err := noSpace(f.store.rows.CheckAvailable()); err != nil {
			return err
		}
		if f.store.rows.IsReadOnly() {
			return nil
		}
		room, err := f.store.rows.HasSpace()
		if err != nil || !room {
			f.noteSpace(err == nil)
			return err
		}
		f.noteSpace(false)
		nonempty, err := f.foldBatch(ctx)
		if err != nil || !nonempty {
			return err
		}
	}
}

// noteSpace records whether the fold is waiting for disk space. It logs when the wait begins.
func (f *Follower) noteSpace(starved bool) {
	if starved && !f.fold.waitsForSpace {
		f.store.config.RowStore.Logger.Warn("the disk is nearly full; the index is waiting for free space",
			"ledger", f.name, "size", f.Size(), "needed_bytes", rowstore.MinFreeBytes)
	}
	f.fold.waitsForSpace = starved
}

// foldBatch fills one batch and starts to store it. It returns false if there were no events.
// The next flushPending waits until the batch is stored and publishes it. If an event cannot
// be folded, the events before it are stored.
func (f *Follower) foldBatch(ctx context.Context) (nonempty bool, err error) {
	f.beginBatch()
	f.fold.beginDeferring()
	nonempty, err = f.gather(ctx)
	if nonempty && f.fold.Rows.Err == nil {
		if !f.fold.deferWork {
			f.fold.flushDeferred(f.fold.pending())
		}
		err = errors.Join(err, f.commit())
	}
	return nonempty, errors.Join(err, f.fold.Rows.EndBatch())
}

// beginBatch begins a batch. The batch gets this ledger's share of the memory limits for all
// ledgers.
func (f *Follower) beginBatch() {
	c, share := f.store.config, max(1, f.store.followed())
	f.fold.maxBatchEvents = min(uint64(c.MaxBatchEvents), f.limit-f.fold.state.size)
	if requested := f.requestedSize.Load(); requested > f.fold.state.size {
		f.fold.maxBatchEvents = min(f.fold.maxBatchEvents, requested-f.fold.state.size)
	}
	f.fold.MaxBatchEffects = c.MaxBatchEffects
	f.fold.state.partial = false
	f.fold.Rows.BeginBatch(rowstore.Limits{BatchBytes: c.MaxBatchBytes / share, RowCacheBytes: c.RowCacheBytes / share})
}

// gather folds events into the batch until the batch is full or the log ends. It reports
// whether the batch contains anything.
func (f *Follower) gather(ctx context.Context) (nonempty bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready := f.ahead(ctx)
	defer func() {
		cancel()
		f.fold.keepDecoded(ready)
	}()
	from := f.fold.state.size
	for {
		c, ok := f.fold.next(ready)
		if !ok {
			return f.fold.state.size > from, nil
		}
		if full, err := f.fold.chunk(ctx, c, from); full || err != nil {
			return f.fold.state.size > from || !f.fold.Rows.IsEmpty(), err
		}
		f.fold.free()
	}
}

// chunk folds the events of a chunk into the batch that began at seq from. It reports whether the
// batch must end. If an event must be folded again, chunk discards the decoded events, because
// families may have changed them.
func (f *Fold) chunk(ctx context.Context, c *chunk, from uint64) (full bool, err error) {
	if err := ctx.Err(); err != nil { // stop even if the chunk was decoded before ctx was done
		return true, err
	}
	for c.folded < c.count {
		err := f.event(ctx, &c.events[c.folded])
		if err != nil {
			f.discardDecoded()
		}
		if errors.Is(err, ErrBatchNotEmpty) || errors.Is(err, ErrBatchFull) {
			f.state.partial = errors.Is(err, ErrBatchFull)
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("adding event %d to the index: %w", f.state.size, err)
		}
		c.folded++
		if f.state.size-from >= f.maxBatchEvents || f.Rows.IsFull() {
			return true, nil
		}
	}
	if err := c.err; err != nil {
		f.discardDecoded() // so that the next batch reads the event again
		return true, fmt.Errorf("adding event %d to the index: %w", f.state.size, err)
	}
	return false, nil
}

// flight is a batch that is being stored while the next one is being filled.
type flight struct {
	batch *rowstore.Batch // owned by the goroutine that stores the batch
	next  *snapshot       // the snapshot to publish once the batch is stored
	done  chan error
}

// commit starts to store the batch and its cursor. It first waits for the previous batch, so that
// at most one batch is being stored at a time.
func (f *Follower) commit() error {
	rows := &f.fold.Rows
	f.fold.writeRecorded()
	f.fold.Counters.Write(&f.fold.Rows)
	rows.Set(rows.Keyspace.AppendPrefix(nil, cursorDimension), f.fold.state.append(nil, f.fold.deferWork))
	if err := errors.Join(f.flushPending(), rows.Err); err != nil {
		return err
	}
	batch := rows.TakeBatch()
	f.flight = &flight{batch: batch, next: f.snapshot(), done: make(chan error, 1)}
	go func(done chan<- error) { done <- batch.Commit() }(f.flight.done)
	return nil
}

// flushPending waits until the batch in flight is stored, and publishes its snapshot.
func (f *Follower) flushPending() error {
	if f.flight == nil {
		return nil
	}
	stored := f.flight
	f.flight = nil
	err := <-stored.done
	f.fold.Rows.ReuseBatch(stored.batch)
	if err != nil {
		return fmt.Errorf("storing the index up to size %d: %w", stored.next.size, err)
	}
	f.publish(stored.next)
	f.store.held.holdRequested(f, stored.next)
	return nil
}

// event folds the next event of the log. If it returns an error, the event is not folded. If
// some of its rows were already written, Rows.Err is set and the batch is discarded.
func (f *Fold) event(ctx context.Context, e *Event) error {
	if e.PrevHash != f.state.tip {
		return fmt.Errorf("prev_event_hash is %x, but the hash of the previous event is %x", e.PrevHash, f.state.tip)
	}
	e.Seq = f.state.size
	if err := f.derive(ctx, e); err != nil {
		if !errors.Is(err, ErrBatchNotEmpty) && !errors.Is(err, ErrBatchFull) {
			f.Rows.Failf("%w", err)
		}
		return err
	}
	f.value = rowstore.AppendSeq(eventHashKey(f.Rows.Keyspace, f.value[:0], e.Hash), e.Seq)
	f.Rows.Set(f.value, nil)
	f.mark(&e.Event)
	f.Counters.CountEvent(&e.Event)
	f.state.size++
	f.state.tip = e.Hash
	return f.Rows.Err
}

// derive passes an event to each deriver, and stops at the first error.
func (f *Fold) derive(ctx context.Context, e *Event) error {
	for _, d := range f.derivers {
		if err := d.Derive(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// ReadEvent reads an event of the log. The result is valid until the next call of ReadEvent.
func (f *Fold) ReadEvent(ctx context.Context, seq uint64) (*event.Event, error) {
	entry, err := f.Log.Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	e, err := f.decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	e.Seq = seq
	return &e, nil
}

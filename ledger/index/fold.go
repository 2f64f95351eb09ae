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

// Fold takes events into the index, one after the other. It belongs to its
// follower's goroutine.
type Fold struct {
	Log  Log
	Rows rowstore.Rows
	// state and counters, with what the batch in the making brings.
	state    cursor
	Counters counters.Counters
	recorded recorded

	// The batch covers at most batchEvents events, and so many of the effects of its last
	// one, if these are without bound.
	batchEvents uint64
	BatchSteps  int

	waitsForSpace bool // the disk was too full the last time

	chunks       chan *chunk  // for reading ahead
	flushPending func() error // that of the follower

	derivers  []Deriver
	preparers []Preparer
	deferring []Deferring
	// late: deferring derivers do their work when they are told to, not in every batch.
	deferWork bool

	// Touched counts the keys that were read beside rows.
	Touched int
	// Cache keeps what was encoded of events for queries.
	Cache EventCache
	// FilterBytes is what filters of all ledgers may still take.
	FilterBytes *atomic.Int64

	decoder event.Decoder
	value   []byte // scratch
}

// ErrBatchNotEmpty: the event must be the first of its batch.
var ErrBatchNotEmpty = errors.New("index: the event wants what precedes it to be stored")

// ErrUnfinished: the event has only partly been folded. What was done is stored, and
// counted, and the event comes again for the rest; views do not see it until then.
var ErrUnfinished = errors.New("index: the event has more to it than a batch takes")

// RequireEmptyBatch is errUnsettled unless all that precedes the event is stored, so that
// whoever folds it can range over rows. It is called before anything of the event
// is written; the event then comes again, alone.
func (f *Fold) RequireEmptyBatch() error {
	if !f.Rows.Empty() {
		return ErrBatchNotEmpty
	}
	return f.flushPending()
}

// catchUp folds all events up to the head, or as long as there is room on the
// disk. Each batch reads the log afresh, so that a long fold does not hold on to
// what the log's database wants to give up.
func (f *Follower) catchUp(ctx context.Context) (err error) {
	replaced, err := f.store.acquire()
	if err != nil {
		return err
	}
	defer f.store.rows.Release()
	f.replaced = replaced
	if !f.store.rows.Owns(&f.fold.Rows) {
		f.store.mu.Lock()
		err := f.begin(ctx)
		f.store.mu.Unlock()
		if err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, f.flushPending()) }()
	for {
		if err := noSpace(f.store.rows.Refused()); err != nil {
			return err
		}
		if f.store.rows.ReadOnly() {
			return nil
		}
		room, err := f.store.rows.HasSpace()
		if err != nil || !room {
			f.noteSpace(err == nil)
			return err
		}
		f.noteSpace(false)
		more, err := f.foldBatch(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// noteSpace notes whether the fold waits for room, and logs it when that begins.
func (f *Follower) noteSpace(starved bool) {
	if starved && !f.fold.waitsForSpace {
		f.store.config.Rows.Log.Warn("the disk is nearly full, the index waits for room",
			"ledger", f.name, "size", f.Size(), "needed_bytes", rowstore.MinFreeBytes)
	}
	f.fold.waitsForSpace = starved
}

// foldBatch folds the events that one batch takes, says whether there were any, and has
// the batch stored and published: it is when land returns, after the last batch.
// Before an event that cannot be folded those that precede it are stored.
func (f *Follower) foldBatch(ctx context.Context) (more bool, err error) {
	f.beginBatch()
	f.fold.beginDeferring()
	more, err = f.gather(ctx)
	if more && f.fold.Rows.Err == nil {
		if !f.fold.deferWork {
			f.fold.flushDeferred(f.fold.pending())
		}
		err = errors.Join(err, f.commit())
	}
	return more, errors.Join(err, f.fold.Rows.End())
}

// beginBatch begins a batch, which has the ledger's share of bytes.
func (f *Follower) beginBatch() {
	c, share := f.store.config, max(1, f.store.followed())
	f.fold.batchEvents = min(uint64(c.BatchEvents), f.limit-f.fold.state.size)
	f.fold.BatchSteps = c.BatchSteps
	f.fold.Rows.Begin(rowstore.Limits{Batch: c.BatchBytes / share, RowCache: c.RowCacheBytes / share})
}

// gather folds events into the batch until it is full or the log ends, and reports
// whether there is anything in it.
func (f *Follower) gather(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready := f.ahead(ctx)
	defer func() { // all chunks are back when the goroutine has ended
		cancel()
		for c := range ready {
			f.fold.chunks <- c
		}
	}()
	from := f.fold.state.size
	for c := range ready {
		full, err := f.fold.chunk(ctx, c, from)
		f.fold.chunks <- c
		if full || err != nil {
			return f.fold.state.size > from || !f.fold.Rows.Empty(), err
		}
	}
	return f.fold.state.size > from, nil
}

// chunk folds the events of a chunk, and reports whether the batch, which began at an
// event, ends with them.
func (f *Fold) chunk(ctx context.Context, c *chunk, from uint64) (full bool, err error) {
	for i := range c.count {
		err := f.event(ctx, &c.events[i])
		if errors.Is(err, ErrBatchNotEmpty) || errors.Is(err, ErrUnfinished) {
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("folding event %d: %w", f.state.size, err)
		}
		if f.state.size-from >= f.batchEvents || f.Rows.Full() {
			return true, nil
		}
	}
	if c.err != nil {
		return true, fmt.Errorf("folding event %d: %w", f.state.size, c.err)
	}
	return false, nil
}

// flight is a batch that is being stored while the next one is gathered. What it
// holds is in memory for the fold until then.
type flight struct {
	batch *rowstore.Batch // of the goroutine that stores it
	next  *snapshot       // what is published when it has stored
	done  chan error
}

// commit has the batch stored, together with the cursor that it next to. One batch
// is in flight at a time.
func (f *Follower) commit() error {
	rows := &f.fold.Rows
	f.fold.writeRecorded()
	f.fold.Counters.Write(&f.fold.Rows)
	rows.Set(rows.Keys.Key(nil, cursorDimension), f.fold.state.append(nil, f.fold.deferWork))
	if err := errors.Join(f.flushPending(), rows.Err); err != nil {
		return err
	}
	batch := rows.Take()
	f.flight = &flight{batch: batch, next: f.snapshot(), done: make(chan error, 1)}
	go func(done chan<- error) { done <- batch.Commit() }(f.flight.done)
	return nil
}

// flushPending waits until the batch in flight is stored, and publishes what it next to.
func (f *Follower) flushPending() error {
	if f.flight == nil {
		return nil
	}
	stored := f.flight
	f.flight = nil
	err := <-stored.done
	f.fold.Rows.Reuse(stored.batch)
	if err != nil {
		return fmt.Errorf("storing the index up to event %d: %w", stored.next.size, err)
	}
	f.publish(stored.next)
	return nil
}

// event folds the next event of the log. After an error nothing of it is folded,
// or, if the error came in the midst of it, rows says so and the batch is lost.
func (f *Fold) event(ctx context.Context, e *Event) error {
	if e.Prev != f.state.tip {
		return fmt.Errorf("it follows %x, the event before it is %x", e.Prev, f.state.tip)
	}
	e.Seq = f.state.size
	if err := f.derive(ctx, e); err != nil {
		if !errors.Is(err, ErrBatchNotEmpty) && !errors.Is(err, ErrUnfinished) {
			f.Rows.Fail("%w", err)
		}
		return err
	}
	f.value = rowstore.AppendSeq(eventHashKey(f.Rows.Keys, f.value[:0], e.Hash), e.Seq)
	f.Rows.Set(f.value, nil)
	f.mark(&e.Event)
	f.Counters.CountEvent(&e.Event)
	f.state.size++
	f.state.tip = e.Hash
	return f.Rows.Err
}

// derive writes the rows that an event brings.
func (f *Fold) derive(ctx context.Context, e *Event) error {
	for _, d := range f.derivers {
		if err := d.Derive(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// ReadEvent reads an event of the log. It is valid until the next one is read.
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

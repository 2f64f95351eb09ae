package index

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/storage"
)

// fold takes events into the index, one after the other. It belongs to its
// follower's goroutine.
type fold struct {
	log  storage.Reader
	rows rowstore.Rows
	// state and counters, with what the batch in the making brings.
	state    cursor
	counters counters
	alike    alike // what the batch has not counted yet
	recorded recorded

	// The batch covers at most batchEvents events, and so many of the effects of its last
	// one, if these are without bound.
	batchEvents uint64
	batchSteps  int

	starved bool // the disk was too full the last time

	chunks chan *chunk  // for reading ahead, and
	drawn  identities   // of what was read last: of the goroutine that does, while there is one
	land   func() error // that of the follower
	runs   runsFold
	// touched counts the keys that were read beside rows.
	touched int

	// Scratch of one event.
	others      values     // of another record
	othersKnown identities // of them
	conditions  identities // of the variables of an ipc_id
	value       []byte
}

// errUnsettled: the event must be the first of its batch.
var errUnsettled = errors.New("index: the event wants what precedes it to be stored")

// errUnfinished: the event has only partly been folded. What was done is stored, and
// counted, and the event comes again for the rest; views do not see it until then.
var errUnfinished = errors.New("index: the event has more to it than a batch takes")

// settled is errUnsettled unless all that precedes the event is stored, so that
// whoever folds it can range over rows. It is called before anything of the event
// is written; the event then comes again, alone.
func (f *fold) settled() error {
	if !f.rows.Empty() {
		return errUnsettled
	}
	return f.land()
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
	if !f.store.rows.Owns(&f.fold.rows) {
		f.store.mu.Lock()
		err := f.begin(ctx)
		f.store.mu.Unlock()
		if err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, f.land()) }()
	for {
		if err := noSpace(f.store.rows.Refused()); err != nil {
			return err
		}
		if f.store.rows.ReadOnly() {
			return nil
		}
		room, err := f.store.rows.Roomy()
		if err != nil || !room {
			f.starve(err == nil)
			return err
		}
		f.starve(false)
		more, err := f.foldBatch(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// starve notes whether the fold waits for room, and logs it when that begins.
func (f *Follower) starve(starved bool) {
	if starved && !f.fold.starved {
		f.store.config.rows.Log.Warn("the disk is nearly full, the index waits for room",
			"ledger", f.name, "size", f.Size(), "needed_bytes", rowstore.MinFreeBytes)
	}
	f.fold.starved = starved
}

// foldBatch folds the events that one batch takes, says whether there were any, and has
// the batch stored and published: it is when land returns, after the last batch.
// Before an event that cannot be folded those that precede it are stored.
func (f *Follower) foldBatch(ctx context.Context) (more bool, err error) {
	f.beginBatch()
	runs := &f.fold.runs
	if !runs.rankedLate {
		runs.since = f.fold.state.size
	}
	more, err = f.gather(ctx)
	if more && f.fold.rows.Err == nil {
		if !runs.rankedLate {
			f.fold.rank(len(runs.changed))
		}
		err = errors.Join(err, f.commit())
	}
	return more, errors.Join(err, f.fold.rows.End())
}

// beginBatch begins a batch, which has the ledger's share of bytes.
func (f *Follower) beginBatch() {
	c, share := f.store.config, max(1, f.store.followed())
	f.fold.batchEvents = min(uint64(c.batchEvents), f.limit-f.fold.state.size)
	f.fold.batchSteps = c.batchSteps
	f.fold.rows.Begin(rowstore.Limits{Batch: c.batchBytes / share, Kept: c.keptBytes / share})
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
			return f.fold.state.size > from || !f.fold.rows.Empty(), err
		}
	}
	return f.fold.state.size > from, nil
}

// chunk folds the events of a chunk, and reports whether the batch, which began at an
// event, ends with them.
func (f *fold) chunk(ctx context.Context, c *chunk, from uint64) (full bool, err error) {
	for i := range c.count {
		err := f.event(ctx, &c.events[i])
		if errors.Is(err, errUnsettled) || errors.Is(err, errUnfinished) {
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("folding event %d: %w", f.state.size, err)
		}
		if f.state.size-from >= f.batchEvents || f.rows.Full() {
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
	leads *snapshot       // what is published when it has landed
	done  chan error
}

// commit has the batch stored, together with the cursor that it leads to. One batch
// is in flight at a time.
func (f *Follower) commit() error {
	rows := &f.fold.rows
	f.fold.writeRecorded()
	f.fold.countAlike()
	f.fold.writeCounters()
	rows.Set(rows.Keys.Key(nil, cursorDimension), f.fold.state.append(nil, f.fold.runs.rankedLate))
	if err := errors.Join(f.land(), rows.Err); err != nil {
		return err
	}
	batch := rows.Take()
	f.flight = &flight{batch: batch, leads: f.snapshot(), done: make(chan error, 1)}
	go func(done chan<- error) { done <- batch.Commit() }(f.flight.done)
	return nil
}

// land waits until the batch in flight is stored, and publishes what it leads to.
func (f *Follower) land() error {
	if f.flight == nil {
		return nil
	}
	landed := f.flight
	f.flight = nil
	err := <-landed.done
	f.fold.rows.Reuse(landed.batch)
	if err != nil {
		return fmt.Errorf("storing the index up to event %d: %w", landed.leads.size, err)
	}
	f.publish(landed.leads)
	return nil
}

// event folds the next event of the log. After an error nothing of it is folded,
// or, if the error came in the midst of it, rows says so and the batch is lost.
func (f *fold) event(ctx context.Context, e *drawn) error {
	if e.Prev != f.state.tip {
		return fmt.Errorf("it follows %x, the event before it is %x", e.Prev, f.state.tip)
	}
	e.Seq = f.state.size
	if err := f.derive(ctx, e); err != nil {
		if !errors.Is(err, errUnsettled) && !errors.Is(err, errUnfinished) {
			f.rows.Fail("%w", err)
		}
		return err
	}
	f.value = rowstore.AppendSeq(eventHashKey(f.rows.Keys, f.value[:0], e.Hash), e.Seq)
	f.rows.Set(f.value, nil)
	f.mark(&e.Event)
	f.countEvent(&e.Event)
	f.state.size++
	f.state.tip = e.Hash
	return f.rows.Err
}

// derive writes the rows that an event brings, by its kind.
func (f *fold) derive(ctx context.Context, e *drawn) error {
	switch e.Kind {
	case record.IPCRecord:
		return f.ipcRecord(ctx, e)
	case record.RunDAG:
		return f.runDAG(ctx, e)
	case record.CitationSet:
		return f.citationSet(ctx, e)
	case record.PathFingerprint:
		return f.pathFingerprint(ctx, e)
	case record.RecordStateChanged:
		return f.stateChanged(ctx, &e.Event)
	case record.PathValidated:
		return f.pathValidated(ctx, &e.Event)
	case record.SourceRegistered, record.SourceRevoked:
		return f.sourceChanged(ctx, &e.Event)
	case record.ContentRedacted:
		f.redacted(&e.Event)
	}
	return nil
}

// redacted makes a redaction one that lists find by its kind. Nothing else follows
// from it: answers are derived from entries alone (2.6).
func (f *fold) redacted(e *event.Event) {
	id := rowstore.Identify([]byte(kindName), []byte(e.Kind))
	f.rows.Write(postings, id[:], e.Seq, []byte{isRecord})
}

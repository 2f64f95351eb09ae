package index

import (
	"context"
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/storage"
)

// fold takes events into the index, one after the other. It belongs to its
// follower's goroutine.
type fold struct {
	log    storage.Reader
	rows   rows
	state  state           // with what the batch in the making brings
	counts map[series]bool // counters that the batch has changed

	starved bool // the disk was too full the last time

	chunks chan *chunk  // for reading ahead
	land   func() error // that of the follower
	runs   runsFold

	// Scratch of one event.
	posted []posting
	value  []byte
}

// errUnsettled: the event must be the first of its batch.
var errUnsettled = errors.New("index: the event wants what precedes it to be stored")

// settled is errUnsettled unless all that precedes the event is stored, so that
// whoever folds it can range over rows. It is called before anything of the event
// is written; the event then comes again, alone.
func (f *fold) settled() error {
	if f.rows.batch.Count() > 0 {
		return errUnsettled
	}
	return f.land()
}

// catchUp folds all events up to the head, or as long as there is room on the
// disk. Each batch reads the log afresh, so that a long fold does not hold on to
// what the log's database wants to give up.
func (f *Follower) catchUp(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, f.land()) }()
	for {
		room, err := f.store.config.folder.roomy()
		if err != nil || !room {
			f.starve(err == nil)
			return err
		}
		f.starve(false)
		events, err := f.foldBatch(ctx)
		if err != nil || events == 0 {
			return err
		}
	}
}

// starve notes whether the fold waits for room, and logs it when that begins.
func (f *Follower) starve(starved bool) {
	if starved && !f.fold.starved {
		f.store.config.log.Warn("the disk is nearly full, the index waits for room",
			"ledger", f.name, "size", f.Size(), "needed_bytes", minFreeBytes)
	}
	f.fold.starved = starved
}

// foldBatch folds the events that one batch takes, says how many they were, and has
// the batch stored and published: it is when land returns, after the last batch.
// Before an event that cannot be folded those that precede it are stored.
func (f *Follower) foldBatch(ctx context.Context) (int, error) {
	f.fold.rows.begin(f.store.config.cachedRows / max(1, f.store.followed()))
	events, err := f.gather(ctx)
	if events > 0 && f.fold.rows.err == nil {
		err = errors.Join(err, f.commit())
	}
	return events, errors.Join(err, f.fold.rows.end())
}

// gather folds events into the batch until it is full or the log ends.
func (f *Follower) gather(ctx context.Context) (events int, err error) {
	limits := f.store.config
	limits.batchEvents = int(min(uint64(limits.batchEvents), f.limit-f.fold.state.size))
	ctx, cancel := context.WithCancel(ctx)
	ready := ahead(ctx, f.log, f.fold.state.size, f.fold.chunks)
	defer func() { // all chunks are back when the goroutine has ended
		cancel()
		for c := range ready {
			f.fold.chunks <- c
		}
	}()
	for c := range ready {
		full, err := f.fold.chunk(ctx, c, &events, limits)
		f.fold.chunks <- c
		if full || err != nil {
			return events, err
		}
	}
	return events, nil
}

// chunk folds the events of a chunk, adds to their number, and reports whether
// the batch ends with them.
func (f *fold) chunk(ctx context.Context, c *chunk, events *int, limits config) (full bool, err error) {
	for i := range c.events {
		err := f.event(ctx, &c.events[i])
		if errors.Is(err, errUnsettled) {
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("folding event %d: %w", f.state.size, err)
		}
		if *events++; *events == limits.batchEvents || f.rows.batch.Len() >= limits.batchBytes {
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
	leads *snapshot // what is published when it has landed
	done  chan error
}

// commit has the batch stored, together with the cursor that it leads to. One batch
// is in flight at a time.
func (f *Follower) commit() error {
	rows := &f.fold.rows
	f.fold.rank()
	for s := range f.fold.counts {
		key := s.appendName(rows.keys.key(nil, counterDimension))
		rows.set(key, appendSeq(nil, f.fold.state.counts[s]))
	}
	clear(f.fold.counts)
	rows.set(rows.keys.key(nil, cursorDimension), f.fold.state.append(nil))
	if err := errors.Join(f.land(), rows.err); err != nil {
		return err
	}
	batch := rows.takeOff()
	f.flight = &flight{leads: f.fold.state.snapshot(), done: make(chan error, 1)}
	go func(done chan<- error) {
		done <- errors.Join(batch.Commit(engine.NoSync), batch.Close())
	}(f.flight.done)
	return nil
}

// land waits until the batch in flight is stored, and publishes what it leads to.
func (f *Follower) land() error {
	if f.flight == nil {
		return nil
	}
	landed := f.flight
	f.flight = nil
	if err := <-landed.done; err != nil {
		return fmt.Errorf("storing the index up to event %d: %w", landed.leads.size, err)
	}
	f.publish(landed.leads)
	return nil
}

// event folds the next event of the log. After an error nothing of it is folded,
// or, if the error came in the midst of it, rows says so and the batch is lost.
func (f *fold) event(ctx context.Context, e *event.Event) error {
	if e.Prev != f.state.tip {
		return fmt.Errorf("it follows %x, the event before it is %x", e.Prev, f.state.tip)
	}
	e.Seq = f.state.size
	if err := f.derive(ctx, e); err != nil {
		if !errors.Is(err, errUnsettled) {
			f.rows.fail("%w", err)
		}
		return err
	}
	f.value = appendSeq(f.value[:0], e.Seq)
	f.rows.set(f.rows.keys.eventHash(nil, e.Hash), f.value)
	f.mark(e)
	f.countEvent(e)
	f.state.size++
	f.state.tip = e.Hash
	return f.rows.err
}

// derive writes the rows that an event brings, by its kind.
func (f *fold) derive(ctx context.Context, e *event.Event) error {
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
		return f.stateChanged(ctx, e)
	case record.PathValidated:
		return f.pathValidated(ctx, e)
	case record.SourceRegistered, record.SourceRevoked:
		return f.sourceChanged(ctx, e)
	}
	return nil
}

// count adds to a counter.
func (f *fold) count(s series, n uint64) {
	f.state.counts[s] += n
	f.counts[s] = true
}

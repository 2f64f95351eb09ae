package index

import (
	"encoding/binary"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// markedEvery is the number of events in a block. The events of a block share one time mark,
// and one key that holds all their times.
const markedEvery = 64

// recorded holds the times at which the events of the current block were recorded. Each time
// is encoded as its difference from the previous one in microseconds, and the first as its
// difference from 1970. It belongs to the follower's goroutine.
type recorded struct {
	encoded []byte
	events  uint64 // number of times in the block
	last    int64  // the last time, in microseconds
	stored  uint64 // number of times that are already written
}

// mark adds the time at which an event was recorded to the current block. If the event begins a
// block, it also writes the time mark of the block.
func (f *Fold) mark(e *event.Event) {
	r, at := &f.recorded, e.Seq%markedEvery
	switch {
	case at == 0:
		f.Rows.Set(recordedMarkKey(f.Rows.Keys, nil, e.Time, e.Seq), nil)
		*r = recorded{encoded: r.encoded[:0]}
	case r.events != at: // the event is the first of this fold
		if err := r.load(&f.Rows, e.Seq); err != nil {
			f.Rows.Failf("%w", err)
			return
		}
	}
	micros := e.Time.UnixMicro()
	r.encoded = binary.AppendVarint(r.encoded, micros-r.last)
	r.last = micros
	if r.events++; r.events == markedEvery {
		f.writeRecorded()
	}
}

// load restores the block of an event from what an earlier fold stored.
func (r *recorded) load(rows *rowstore.Writer, seq uint64) error {
	*r = recorded{}
	encoded, _, err := rows.GetStored(recordedBlockKey(rows.Keys, nil, seq/markedEvery))
	if err != nil {
		return err
	}
	times := timesReader{rest: encoded}
	for ; r.events < seq%markedEvery; r.events++ {
		if _, err := times.next(); err != nil {
			return err
		}
	}
	r.encoded, r.last, r.stored = encoded[:len(encoded)-len(times.rest)], times.micros, r.events
	return nil
}

// writeRecorded writes the times of the current block that are not yet written.
func (f *Fold) writeRecorded() {
	if r := &f.recorded; r.events > r.stored {
		f.value = recordedBlockKey(f.Rows.Keys, f.value[:0], (f.state.size)/markedEvery)
		f.Rows.Set(f.value, r.encoded)
		r.stored = r.events
	}
}

func recordedBlockKey(k rowstore.Keyspace, dst []byte, block uint64) []byte {
	return rowstore.AppendSeq(k.Prefix(dst, recordedTimes), block)
}

// timesReader decodes the times of a block in order.
type timesReader struct {
	rest   []byte
	micros int64 // the last time, in microseconds since 1970
}

func (t *timesReader) next() (time.Time, error) {
	step, size := binary.Varint(t.rest)
	if size <= 0 {
		return time.Time{}, fmt.Errorf("%w: the times of a block of events cannot be decoded", rowstore.ErrDamaged)
	}
	t.rest, t.micros = t.rest[size:], t.micros+step
	return time.UnixMicro(t.micros).UTC(), nil
}

// recordedIn returns the times of a block. They are valid until the next row is read.
func (v *View) recordedIn(block uint64) (timesReader, error) {
	v.block = recordedBlockKey(v.Keys, v.block[:0], block)
	encoded, found, err := v.Get(v.block)
	if err == nil && !found {
		err = fmt.Errorf("%w: block %d has no times", rowstore.ErrDamaged, block)
	}
	return timesReader{rest: encoded}, err
}

// RecordedAt returns the time at which an event was recorded. The event must be below the
// view's size.
func (v *View) RecordedAt(seq uint64) (at time.Time, err error) {
	times, err := v.recordedIn(seq / markedEvery)
	for n := uint64(0); err == nil && n <= seq%markedEvery; n++ {
		at, err = times.next()
	}
	return at, err
}

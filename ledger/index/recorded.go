package index

import (
	"encoding/binary"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// timeBlockEvents is the number of events in a block. The events in a block share one key in
// recordedMarks and one row that contains their times.
const timeBlockEvents = 64

// recorded holds the times at which the events in the current block were recorded. Each time is
// encoded as the number of microseconds since the previous one, the first as the number of
// microseconds since 1970. Only the follower's goroutine uses it.
type recorded struct {
	encoded []byte
	events  uint64 // number of timestamps in the block
	last    int64  // the last timestamp, in microseconds since 1970
	stored  uint64 // number of timestamps already written
}

// mark adds the time at which e was recorded to the current block. If e is the first event in a
// block, mark also writes the block's key in recordedMarks.
func (f *Fold) mark(e *event.Event) {
	r, at := &f.recorded, e.Seq%timeBlockEvents
	switch {
	case at == 0:
		f.Rows.Set(recordedMarkKey(f.Rows.Keyspace, nil, e.Time, e.Seq), nil)
		*r = recorded{encoded: r.encoded[:0]}
	case r.events != at: // this fold began in the middle of the block
		if err := r.load(&f.Rows, e.Seq); err != nil {
			f.Rows.Failf("%w", err)
			return
		}
	}
	micros := e.Time.UnixMicro()
	r.encoded = binary.AppendVarint(r.encoded, micros-r.last)
	r.last = micros
	if r.events++; r.events == timeBlockEvents {
		f.writeRecorded()
	}
}

// load restores the times of the earlier events in the block that contains seq. It reads them from
// the row that an earlier fold stored.
func (r *recorded) load(rows *rowstore.Writer, seq uint64) error {
	*r = recorded{}
	encoded, _, err := rows.GetStored(recordedBlockKey(rows.Keyspace, nil, seq/timeBlockEvents))
	if err != nil {
		return err
	}
	times := timesReader{rest: encoded}
	for ; r.events < seq%timeBlockEvents; r.events++ {
		if _, err := times.next(); err != nil {
			return err
		}
	}
	r.encoded, r.last, r.stored = encoded[:len(encoded)-len(times.rest)], times.micros, r.events
	return nil
}

// writeRecorded writes the times in the current block, unless all of them have already been
// written.
func (f *Fold) writeRecorded() {
	if r := &f.recorded; r.events > r.stored {
		f.value = recordedBlockKey(f.Rows.Keyspace, f.value[:0], (f.state.size)/timeBlockEvents)
		f.Rows.Set(f.value, r.encoded)
		r.stored = r.events
	}
}

func recordedBlockKey(k rowstore.Keyspace, dst []byte, block uint64) []byte {
	return rowstore.AppendSeq(k.AppendPrefix(dst, recordedTimes), block)
}

// timesReader decodes the times in a block in order.
type timesReader struct {
	rest   []byte
	micros int64 // the last time decoded, in microseconds since 1970
}

func (t *timesReader) next() (time.Time, error) {
	step, size := binary.Varint(t.rest)
	if size <= 0 {
		return time.Time{}, fmt.Errorf("%w: cannot decode the times of a block of events", rowstore.ErrDamaged)
	}
	t.rest, t.micros = t.rest[size:], t.micros+step
	return time.UnixMicro(t.micros).UTC(), nil
}

// recordedIn returns a reader for the times in a block. The reader is valid until the view reads
// another row.
func (v *View) recordedIn(block uint64) (timesReader, error) {
	v.block = recordedBlockKey(v.Keyspace, v.block[:0], block)
	encoded, found, err := v.Get(v.block)
	if err == nil && !found {
		err = fmt.Errorf("%w: the event times of block %d are missing", rowstore.ErrDamaged, block)
	}
	return timesReader{rest: encoded}, err
}

// RecordedAt returns the time at which the event at seq was recorded. seq must be below the view's
// size.
func (v *View) RecordedAt(seq uint64) (at time.Time, err error) {
	times, err := v.recordedIn(seq / timeBlockEvents)
	for n := uint64(0); err == nil && n <= seq%timeBlockEvents; n++ {
		at, err = times.next()
	}
	return at, err
}

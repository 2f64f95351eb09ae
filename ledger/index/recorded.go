package index

import (
	"encoding/binary"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// markedEvery is how many events, a block, share a mark of the time they were recorded
// at, and the key that holds the times of all.
const markedEvery = 64

// recorded are the times at which the events of a block were recorded, as the fold adds
// to them: each in microseconds from the one before it, the first from 1970. They belong
// to the follower's goroutine.
type recorded struct {
	encoded []byte
	events  uint64 // so many
	last    int64
	stored  uint64 // events whose times the batch need not write
}

// mark notes when an event was recorded.
func (f *Fold) mark(e *event.Event) {
	r, at := &f.recorded, e.Seq%markedEvery
	switch {
	case at == 0:
		f.Rows.Set(recordedMarkKey(f.Rows.Keys, nil, e.Time, e.Seq), nil)
		*r = recorded{encoded: r.encoded[:0]}
	case r.events != at: // the fold has just begun
		if err := r.load(&f.Rows, e.Seq); err != nil {
			f.Rows.Fail("%w", err)
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

// load takes up the block that an event comes to where an earlier fold has left it.
func (r *recorded) load(rows *rowstore.Rows, seq uint64) error {
	*r = recorded{}
	encoded, _, err := rows.Stored(recordedBlockKey(rows.Keys, nil, seq/markedEvery))
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

// writeRecorded writes the times of the block, as far as it goes.
func (f *Fold) writeRecorded() {
	if r := &f.recorded; r.events > r.stored {
		f.value = recordedBlockKey(f.Rows.Keys, f.value[:0], (f.state.size)/markedEvery)
		f.Rows.Set(f.value, r.encoded)
		r.stored = r.events
	}
}

func recordedBlockKey(k rowstore.Keyspace, dst []byte, block uint64) []byte {
	return rowstore.AppendSeq(k.Key(dst, recordedTimes), block)
}

// timesReader reads the times of a block, one after the other.
type timesReader struct {
	rest   []byte
	micros int64 // since 1970, of the last
}

func (t *timesReader) next() (time.Time, error) {
	step, size := binary.Varint(t.rest)
	if size <= 0 {
		return time.Time{}, fmt.Errorf("%w: the times of a block of events", rowstore.ErrDamaged)
	}
	t.rest, t.micros = t.rest[size:], t.micros+step
	return time.UnixMicro(t.micros).UTC(), nil
}

// recordedIn are the times of a block, valid until the next row is read.
func (v *View) recordedIn(block uint64) (timesReader, error) {
	v.block = recordedBlockKey(v.Keys, v.block[:0], block)
	encoded, found, err := v.Get(v.block)
	if err == nil && !found {
		err = fmt.Errorf("%w: no times of block %d", rowstore.ErrDamaged, block)
	}
	return timesReader{rest: encoded}, err
}

// RecordedAt is when an event was recorded that the view sees.
func (v *View) RecordedAt(seq uint64) (at time.Time, err error) {
	times, err := v.recordedIn(seq / markedEvery)
	for n := uint64(0); err == nil && n <= seq%markedEvery; n++ {
		at, err = times.next()
	}
	return at, err
}

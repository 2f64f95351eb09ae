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

// ErrAhead: the index has not come to the size that was asked for.
var ErrAhead = errors.New("index: it has not come that far")

// View answers queries as of one tree size: what later events have brought is not
// seen (2.6). It is for one goroutine, and must be closed.
type View struct {
	follower *Follower
	keys     keyspace
	snapshot *engine.Snapshot
	// latest is the size that the snapshot was taken at. Rankings are kept for it
	// alone.
	latest  uint64
	size    uint64
	points  *engine.Iterator // for point reads; made when it is first needed
	key     []byte           // scratch, as is
	encoded []byte           // this
	events  event.Decoder
	// records are the last that were read: outputs of a group are mostly those of its runs.
	records  map[uint64]IPCRecord
	restated *bool // nil: not known
	// touched counts the keys that were read, of the log too, and bytes those of events.
	touched, bytes int
}

// Latest is the view of all that is folded.
func (f *Follower) Latest() (*View, error) {
	if _, err := f.store.acquire(); err != nil {
		return nil, fmt.Errorf("ledger %q: %w", f.name, err)
	}
	v := &View{follower: f, keys: f.published.Load().keys, snapshot: f.store.engine.NewSnapshot()}
	c, err := readCursor(v.snapshot, v.keys)
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.latest, v.size = c.size, c.size
	return v, nil
}

// View is the view as of a size; ErrAhead beyond what is folded.
func (f *Follower) View(size uint64) (*View, error) {
	v, err := f.Latest()
	if err != nil {
		return nil, err
	}
	if size > v.latest {
		return nil, errors.Join(fmt.Errorf("ledger %q at size %d, its index is at %d: %w", f.name, size, v.latest, ErrAhead), v.Close())
	}
	v.size = size
	return v, nil
}

// Size is the tree size that the view is of.
func (v *View) Size() uint64 { return v.size }

// Touched is the number of keys that were read so far, those of the log included.
func (v *View) Touched() int { return v.touched }

// Close releases the view.
func (v *View) Close() error {
	defer v.follower.store.release()
	var err error
	if v.points != nil {
		err = v.points.Close()
	}
	return errors.Join(err, v.snapshot.Close())
}

// row appends the key of a row's newest version below a size.
func (v *View) row(d dimension, row []byte, below uint64) []byte {
	v.key = appendVersion(append(v.keys.key(v.key[:0], d), row...), below-1)
	return v.key
}

// newest is the newest version of a row that the view sees. The value is valid
// until the next call.
func (v *View) newest(d dimension, row []byte) (seq uint64, value []byte, found bool, err error) {
	return v.newestBelow(d, row, v.size)
}

// newestBelow is newest for a smaller size.
func (v *View) newestBelow(d dimension, row []byte, below uint64) (seq uint64, value []byte, found bool, err error) {
	if below == 0 {
		return 0, nil, false, nil
	}
	if err := v.point(); err != nil {
		return 0, nil, false, err
	}
	v.touched++
	if !v.points.SeekPrefixGE(v.row(d, row, below)) {
		return 0, nil, false, wrapRead(v.points.Error())
	}
	newest, err := newestAt(v.points, below-1)
	return newest.seq, newest.value, err == nil, err
}

// point makes points if need be.
func (v *View) point() (err error) {
	if v.points == nil {
		v.points, err = v.snapshot.NewIter(nil)
	}
	return wrapRead(err)
}

// read reads an entry of the log, which is the caller's.
func (v *View) read(ctx context.Context, seq uint64) ([]byte, error) {
	v.touched++
	entry, err := v.follower.log.Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	v.bytes += len(entry)
	return entry, nil
}

// event reads an event of the log. It is valid until the next one is read.
func (v *View) event(ctx context.Context, seq uint64) (event.Event, error) {
	_, e, err := v.entry(ctx, seq)
	return e, err
}

// entry is event with the bytes that the event is made of, which are the caller's.
func (v *View) entry(ctx context.Context, seq uint64) ([]byte, event.Event, error) {
	entry, err := v.read(ctx, seq)
	if err != nil {
		return nil, event.Event{}, err
	}
	e, err := v.events.Decode(entry)
	if err != nil {
		return nil, event.Event{}, fmt.Errorf("reading event %d: %w", seq, err)
	}
	return entry, e, nil
}

// kept is the event at seq, which stays as it is when others are read;
// storage.ErrNotFound if it is of another kind, or one that the view does not see.
func (v *View) kept(ctx context.Context, seq uint64, kind record.Kind) (*event.Event, error) {
	if seq >= v.size {
		return nil, fmt.Errorf("event %d: %w", seq, storage.ErrNotFound)
	}
	entry, err := v.read(ctx, seq)
	if err != nil {
		return nil, err
	}
	var decoder event.Decoder
	e, err := decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	if e.Kind != kind {
		return nil, fmt.Errorf("event %d as %s: %w", seq, kind, storage.ErrNotFound)
	}
	return &e, nil
}

func wrapRead(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading the index: %w", err)
}

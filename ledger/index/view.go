package index

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/storage"
)

// ErrAhead: the index has not come to the size that was asked for.
var ErrAhead = errors.New("index: it has not come that far")

// Page is the part of an answer that is wanted.
type Page = rowstore.Page

// ErrPosition: a page does not begin where one before it of the same query ended.
var ErrPosition = rowstore.ErrPosition

// ErrRebuilding: the index was found damaged, and another is about to take its place,
// which begins empty.
var ErrRebuilding = rowstore.ErrRebuilding

// View answers queries as of one tree size: what later events have brought is not
// seen (spec: Index and as_of). It is for one goroutine, and must be closed.
type View struct {
	*rowstore.Reader
	follower *Follower
	// latest is the size that the rows are read at. Rankings are kept for it alone.
	latest uint64
	block  []byte // scratch
	events event.Decoder
	states []any
}

// Latest is the view of all that is folded.
func (f *Follower) Latest() (*View, error) {
	if _, err := f.store.acquire(); err != nil {
		return nil, fmt.Errorf("ledger %q: %w", f.name, err)
	}
	v := &View{follower: f, Reader: f.store.rows.NewReader(f.published.Load().keys)}
	c, err := readCursor(v.Reader, v.Keys)
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.latest = c.size
	v.SetSize(c.size)
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
	v.SetSize(size)
	return v, nil
}

// IsLatest reports whether the view is of all that was folded when it was made.
func (v *View) IsLatest() bool { return v.Size() == v.latest }

// Cache is what is kept of the log's events.
func (v *View) Cache() EventCache { return v.follower.cache() }

// Entries are the entries of the log from one on. They are not counted.
func (v *View) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return v.follower.log.Entries(ctx, from)
}

// Close releases the view.
func (v *View) Close() error {
	defer v.follower.store.rows.Release()
	return v.Reader.Close()
}

// read reads an entry of the log, which is the caller's.
func (v *View) read(ctx context.Context, seq uint64) ([]byte, error) {
	entry, err := v.follower.log.Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	v.Count(1, len(entry))
	return entry, nil
}

// Event reads an event of the log. It is valid until the next one is read.
func (v *View) Event(ctx context.Context, seq uint64) (event.Event, error) {
	_, e, err := v.Entry(ctx, seq)
	return e, err
}

// Entry is event with the bytes that the event is made of, which are the caller's.
func (v *View) Entry(ctx context.Context, seq uint64) ([]byte, event.Event, error) {
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

// EventOfKind is the event at seq, which stays as it is when others are read;
// storage.ErrNotFound if it is of another kind, or one that the view does not see.
func (v *View) EventOfKind(ctx context.Context, seq uint64, kind record.Kind) (*event.Event, error) {
	if seq >= v.Size() {
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

// TextOf is a text of its own; nil for nil.
func TextOf(text []byte) *string {
	if text == nil {
		return nil
	}
	s := string(text)
	return &s
}

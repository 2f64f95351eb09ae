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

// ErrBehind means that the index has not reached the requested size.
var ErrBehind = errors.New("index: the index has not reached the requested size")

// PageRequest selects a part of a list.
type PageRequest = rowstore.PageRequest

// ErrInvalidPosition means that PageRequest.After is not a position that the same query returned
// with an earlier page.
var ErrInvalidPosition = rowstore.ErrInvalidPosition

// ErrRebuilding means that a damaged index is being replaced by an empty one.
var ErrRebuilding = rowstore.ErrRebuilding

// View answers queries as of one tree size, and ignores later events (spec: Index and as_of).
// It is not safe for concurrent use, and must be closed.
type View struct {
	*rowstore.Reader
	follower *Follower
	// latest is the number of events that had been folded when the view was opened. Rankings exist
	// only at that size.
	latest uint64
	// partial means that some rows of the next event are already stored too.
	partial bool
	block   []byte // scratch
	events  event.Decoder
	states  []any
}

// LatestView returns a view of all folded events.
func (f *Follower) LatestView() (*View, error) {
	if _, err := f.store.acquire(); err != nil {
		return nil, fmt.Errorf("opening a view of ledger %q: %w", f.name, err)
	}
	now := f.published.Load()
	v := &View{follower: f, Reader: f.store.rows.NewReader(now.keys)}
	c, err := readCursor(v.Reader, v.Keyspace)
	if err = errors.Join(err, now.sameRows(f)); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.latest, v.partial = c.size, c.partial
	v.SetSize(c.size)
	return v, nil
}

// sameRows returns ErrRebuilding if f's rows have been replaced since s was published. In that
// case, anything read since then may be incomplete.
func (s *snapshot) sameRows(f *Follower) error {
	if f.published.Load().keys != s.keys {
		return fmt.Errorf("reading the index of ledger %q: %w", f.name, ErrRebuilding)
	}
	return nil
}

// View returns a view as of the given size. It returns ErrBehind if the index has not reached that
// size.
func (f *Follower) View(size uint64) (*View, error) {
	v, err := f.LatestView()
	if err != nil {
		return nil, err
	}
	if size > v.latest {
		return nil, errors.Join(fmt.Errorf("opening ledger %q at size %d: the index is at size %d: %w", f.name, size, v.latest, ErrBehind), v.Close())
	}
	v.SetSize(size)
	return v, nil
}

// IsLatest reports whether the view includes all events that were folded when it was opened.
func (v *View) IsLatest() bool { return v.Size() == v.latest }

// EventCache returns the part of the event cache that belongs to the view's log.
func (v *View) EventCache() LogEventCache {
	return LogEventCache{v.follower.store.events, v.follower.number}
}

// Entries yields the log's entries in order, starting at seq from. These reads do not count toward
// KeysRead.
func (v *View) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return v.follower.log.Entries(ctx, from)
}

func (v *View) Close() error {
	defer v.follower.store.rows.Release()
	return v.Reader.Close()
}

// ReadEntry reads the entry of the event at seq from the log. The caller owns the result.
func (v *View) ReadEntry(ctx context.Context, seq uint64) ([]byte, error) {
	entry, err := v.follower.log.Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	v.AddReads(1, len(entry))
	return entry, nil
}

// Event reads the event at seq from the log. The event is valid until the view reads another one.
func (v *View) Event(ctx context.Context, seq uint64) (event.Event, error) {
	_, e, err := v.EntryAndEvent(ctx, seq)
	return e, err
}

// EntryAndEvent is like Event, and also returns the entry, which the caller owns.
func (v *View) EntryAndEvent(ctx context.Context, seq uint64) ([]byte, event.Event, error) {
	entry, err := v.ReadEntry(ctx, seq)
	if err != nil {
		return nil, event.Event{}, err
	}
	e, err := v.events.Decode(entry)
	if err != nil {
		return nil, event.Event{}, fmt.Errorf("reading event %d: %w", seq, err)
	}
	return entry, e, nil
}

// EventOfKind returns the event at seq, which the caller owns, if it is of the given kind. It
// returns storage.ErrNotFound if the event is of another kind or is not below the view's size.
func (v *View) EventOfKind(ctx context.Context, seq uint64, kind record.Kind) (*event.Event, error) {
	if seq >= v.Size() {
		return nil, fmt.Errorf("reading event %d: %w", seq, storage.ErrNotFound)
	}
	entry, err := v.ReadEntry(ctx, seq)
	if err != nil {
		return nil, err
	}
	var decoder event.Decoder
	e, err := decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	if e.Kind != kind {
		return nil, fmt.Errorf("reading event %d as %s: %w", seq, kind, storage.ErrNotFound)
	}
	return &e, nil
}

// StringPointer returns a pointer to a copy of text as a string, or nil if text is nil.
func StringPointer(text []byte) *string {
	if text == nil {
		return nil
	}
	s := string(text)
	return &s
}

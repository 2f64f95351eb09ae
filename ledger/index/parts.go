package index

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An index snapshot consists of all rows of a ledger's index as of one size. Another server
// can fetch it part by part and install it, which takes less time than folding all events.
// Both servers have the same rows, because the rows follow from the events and the layout
// alone.

// SnapshotPart is a part of an index snapshot.
type SnapshotPart struct {
	// Size is the number of events that the snapshot covers.
	Size uint64
	// Rows holds encoded rows in the order of their keys. The length of the key and of the
	// value precede each row. The concatenation of the Rows of all parts is the same on all
	// servers.
	Rows []byte
	// Next is where the next part begins. It is nil after the last part.
	Next []byte
}

// Digest identifies the rows of a part.
func (p *SnapshotPart) Digest() [sha256.Size]byte { return sha256.Sum256(p.Rows) }

// PartBytes is the length at which SnapshotPart.Rows is full: a part that has reached it takes no more
// rows. Each part except the last has at least this length. Servers compare the digests of
// their parts, so a change of PartBytes requires a change of Layout.
const PartBytes = 4 << 20

const (
	// maxHeld bounds the number of snapshots that are read at a time. While one is held, the
	// engine keeps rows that have been replaced since.
	maxHeld = 2
	// holdTime is how long a snapshot is kept after one of its parts was read.
	holdTime = time.Minute
)

var (
	// ErrSizePassed means that the index has passed the requested size, so its rows at that size
	// are gone.
	ErrSizePassed = errors.New("index: the rows at that size are gone")
	// ErrTooManySnapshots means that too many snapshots are being read.
	ErrTooManySnapshots = errors.New("index: other snapshots are being read")
)

// heldView is a view that stays open between the requests for its parts.
type heldView struct {
	mu    sync.Mutex // held while a part is read
	view  *View      // nil once the view is closed; guarded by mu
	timer *time.Timer

	follower *Follower
	size     uint64
	done     atomic.Bool // the last part has been read
}

// heldViews holds the views whose parts are being read, of all ledgers.
type heldViews struct {
	mu     sync.Mutex  // guards the fields below; taken before the mu of a view
	list   []*heldView // without closed views
	closed bool        // no further views can be added
}

func (s *heldViews) find(f *Follower, size uint64) *heldView {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.list {
		if h.follower == f && h.size == size {
			return h
		}
	}
	return nil
}

// add holds a view. If there is no room, it first closes a view whose last part has been read.
// If there is none, it closes the new view and returns ErrTooManySnapshots.
func (s *heldViews) add(f *Follower, v *View) (*heldView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= maxHeld {
		if i := slices.IndexFunc(s.list, func(h *heldView) bool { return h.done.Load() }); i >= 0 {
			s.close(s.list[i])
		}
	}
	if len(s.list) >= maxHeld || s.closed {
		return nil, errors.Join(ErrTooManySnapshots, v.Close())
	}
	h := &heldView{view: v, follower: f, size: v.latest}
	h.timer = time.AfterFunc(holdTime, func() { s.remove(h) })
	s.list = append(s.list, h)
	return h, nil
}

// close closes a view and removes it from the list. It waits while a part of the view is read.
// The caller holds s.mu.
func (s *heldViews) close(h *heldView) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer.Stop()
	if h.view != nil {
		_ = h.view.Close() // cannot fail, because the view has no iterators
		h.view = nil
	}
	s.list = slices.DeleteFunc(s.list, func(other *heldView) bool { return other == h })
}

// remove is like close, for callers that do not hold s.mu.
func (s *heldViews) remove(h *heldView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close(h)
}

// closeAll closes all views. Afterwards, no view can be added.
func (s *heldViews) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for len(s.list) > 0 {
		s.close(s.list[0])
	}
}

// ReadSnapshotPart reads one part of the index snapshot at a size. from is SnapshotPart.Next of the previous
// part, or nil for the first one. A size of 0 means the current size. If the index has not
// reached the size, ReadSnapshotPart waits for it; an error of ctx means that the index did not reach
// it in time. The snapshot is kept for holdTime, so that its other parts can be read while the
// index continues to fold events. ReadSnapshotPart returns ErrSizePassed if the snapshot at this size is no
// longer kept, and ErrTooManySnapshots if too many snapshots are.
func ReadSnapshotPart(ctx context.Context, f *Follower, size uint64, from []byte) (*SnapshotPart, error) {
	p, err := f.store.held.part(ctx, f, size, from)
	if err != nil {
		return nil, fmt.Errorf("reading a part of the index of ledger %q: %w", f.name, err)
	}
	return p, nil
}

func (s *heldViews) part(ctx context.Context, f *Follower, size uint64, from []byte) (*SnapshotPart, error) {
	h, err := s.open(ctx, f, size)
	if err != nil {
		return nil, err
	}
	if err := f.store.rows.AcquireError(); err != nil { // a replacement waits until views are closed
		s.remove(h)
		return nil, noSpace(err)
	}
	return h.read(from)
}

// read reads a part, and keeps the view for holdTime.
func (h *heldView) read(from []byte) (*SnapshotPart, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.view == nil {
		return nil, ErrSizePassed
	}
	h.timer.Reset(holdTime)
	rows, last, more, err := h.view.EncodePart(from, h.follower.store.config.PartBytes)
	if err != nil {
		return nil, err
	}
	if !more {
		h.done.Store(true)
		last = nil
	}
	return &SnapshotPart{Size: h.size, Rows: rows, Next: last}, nil
}

// open returns the held view of a ledger at a size. If there is none, it opens one.
func (s *heldViews) open(ctx context.Context, f *Follower, size uint64) (*heldView, error) {
	for {
		if h := s.find(f, size); h != nil {
			return h, nil
		}
		before := f.published.Load()
		v, err := f.LatestView()
		if err != nil {
			return nil, err
		}
		switch {
		case v.latest > 0 && !v.partial && (size == 0 || v.latest == size):
			return s.add(f, v)
		case size > 0 && v.latest > size:
			err = ErrSizePassed
		case size > v.latest: // make a batch end at this size
			f.cut.Store(size)
		}
		if err = errors.Join(err, v.Close()); err != nil {
			return nil, err
		}
		if err := before.wait(ctx, f, size); err != nil {
			f.cut.CompareAndSwap(size, 0)
			return nil, err
		}
	}
}

// wait waits until a later snapshot is published, or the index has a size.
func (s *snapshot) wait(ctx context.Context, f *Follower, size uint64) error {
	if size > s.size {
		return f.WaitForSize(ctx, size)
	}
	f.Wake()
	select {
	case <-s.superseded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-f.done:
		return ErrClosed
	}
}

// openCut holds a view of the current index if callers of ReadSnapshotPart wait for this size. It is
// called in the follower's goroutine, between two batches. If there is no room, the callers
// get ErrSizePassed.
func (s *heldViews) openCut(f *Follower, now *snapshot) {
	if now.partial || !f.cut.CompareAndSwap(now.size, 0) {
		return
	}
	if v, err := f.LatestView(); err == nil {
		_, _ = s.add(f, v)
	}
}

// Digest returns the digest of all rows as of the size at which the view was opened: the
// SHA-256 of the rows of all parts. Two servers whose indexes have the same size and layout
// have the same digest.
func (v *View) Digest(ctx context.Context) (digest [sha256.Size]byte, err error) {
	if v.partial {
		return digest, ErrAhead
	}
	all := sha256.New()
	var from []byte
	for more := true; more; {
		var rows []byte
		if rows, from, more, err = v.EncodePart(from, PartBytes); err != nil {
			return digest, err
		}
		all.Write(rows)
		if err := ctx.Err(); err != nil {
			return digest, err
		}
	}
	return [sha256.Size]byte(all.Sum(nil)), nil
}

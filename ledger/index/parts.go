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

// An index snapshot consists of all rows of a ledger's index as of one tree size. Another server
// can fetch it part by part and install it, which takes less time than folding all events. Both
// servers then have the same rows, because the rows depend only on the events and the layout.

// SnapshotPart is a part of an index snapshot.
type SnapshotPart struct {
	// Size is the number of events that the snapshot covers.
	Size uint64
	// Rows holds encoded rows in key order. Each row is preceded by the length of its key and the
	// length of its value. The concatenation of the Rows of all parts is the same on all servers.
	Rows []byte
	// Next is the position at which the next part begins. It is nil in the last part.
	Next []byte
}

// Digest returns the SHA-256 of the rows in the part.
func (p *SnapshotPart) Digest() [sha256.Size]byte { return sha256.Sum256(p.Rows) }

// SnapshotPartBytes is the minimum length of SnapshotPart.Rows in every part except the last. Rows
// are added to a part until it reaches this length. Servers compare the digests of their parts, so
// a change to SnapshotPartBytes requires a change to Layout.
const SnapshotPartBytes = 4 << 20

const (
	// maxHeld bounds the number of snapshots that are held open at the same time. While a snapshot is
	// held open, the engine cannot discard rows that newer rows have replaced.
	maxHeld = 2
	// holdTime is how long a snapshot is held open after one of its parts was last read.
	holdTime = time.Minute
)

var (
	// ErrSizePassed means that the index has passed the requested size, so its rows at that size
	// are gone.
	ErrSizePassed = errors.New("index: the rows at the requested size no longer exist")
	// ErrTooManySnapshots means that too many snapshots are being read.
	ErrTooManySnapshots = errors.New("index: too many other snapshots are being read; try again later")
)

// heldView is a view that stays open between the requests for its parts.
type heldView struct {
	mu    sync.Mutex // held while a part is read
	view  *View      // nil once the view is closed; guarded by mu
	timer *time.Timer

	follower *Follower
	size     uint64
	done     atomic.Bool // set once the last part has been read
}

// heldViews holds the views whose parts are being read. It is shared by all ledgers.
type heldViews struct {
	mu     sync.Mutex  // guards the fields below; acquired before the mu of a heldView
	list   []*heldView // contains only open views
	closed bool        // set by closeAll; no further views can be added
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

// add takes ownership of v and adds it to the list. If the list is full, add first closes a view
// whose last part has been read. If there is no such view, or if s is closed, it closes v and
// returns ErrTooManySnapshots.
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

// close closes the view in h and removes h from the list. If a part of the view is being read,
// close waits until it has been read. It is called with s.mu held.
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

// HoldSnapshot waits, like ReadSnapshotPart, until there is a snapshot at the given size. It keeps the snapshot
// open for holdTime, and returns a function that reads a part of it without waiting.
func HoldSnapshot(ctx context.Context, f *Follower, size uint64) (read func(from []byte) (*SnapshotPart, error), err error) {
	h, err := f.store.held.open(ctx, f, size)
	if err != nil {
		return nil, fmt.Errorf("opening a snapshot of the index of ledger %q: %w", f.name, err)
	}
	return func(from []byte) (*SnapshotPart, error) {
		p, err := f.store.held.part(h, from)
		if err != nil {
			return nil, fmt.Errorf("reading a part of the index of ledger %q: %w", f.name, err)
		}
		return p, nil
	}, nil
}

// ReadSnapshotPart reads one part of the index snapshot at the given size, or at the current size if size is
// 0. from is the Next of the previous part, or nil for the first part. If the index has not reached that
// size, ReadSnapshotPart waits until it does or ctx is done. Each read keeps the snapshot open for another
// holdTime, so that its other parts can be read while the index continues to fold events. ReadSnapshotPart
// returns ErrSizePassed if the snapshot at that size is no longer available, and ErrTooManySnapshots if too
// many other snapshots are open.
func ReadSnapshotPart(ctx context.Context, f *Follower, size uint64, from []byte) (*SnapshotPart, error) {
	read, err := HoldSnapshot(ctx, f, size)
	if err != nil {
		return nil, err
	}
	return read(from)
}

func (s *heldViews) part(h *heldView, from []byte) (*SnapshotPart, error) {
	if err := h.follower.store.rows.CheckAvailable(); err != nil { // close the view, because a replacement of the index waits for it
		s.remove(h)
		return nil, noSpace(err)
	}
	return h.read(from)
}

// read reads the part that begins at from. It keeps the view open for another holdTime.
func (h *heldView) read(from []byte) (*SnapshotPart, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.view == nil {
		return nil, ErrSizePassed
	}
	h.timer.Reset(holdTime)
	rows, last, more, err := h.view.EncodeSnapshotPart(from, h.follower.store.config.SnapshotPartBytes)
	if err != nil {
		return nil, err
	}
	if !more {
		h.done.Store(true)
		last = nil
	}
	return &SnapshotPart{Size: h.size, Rows: rows, Next: last}, nil
}

// open returns the held view of f's ledger at the given size. If there is none, it waits until the
// index has that size, then opens and holds a view.
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
		case size > v.latest: // ask the follower to end a batch at this size
			f.requestedSize.Store(size)
		}
		if err = errors.Join(err, v.Close()); err != nil {
			return nil, err
		}
		if err := before.wait(ctx, f, size); err != nil {
			f.requestedSize.CompareAndSwap(size, 0)
			return nil, err
		}
	}
}

// wait waits until the index reaches the given size or, if s has already reached it, until a newer
// snapshot is published.
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

// holdRequested opens and holds a view of the current index if a caller of ReadSnapshotPart is waiting for
// that size. It is called in the follower's goroutine, between two batches. If too many snapshots are held
// already, the waiting callers get ErrTooManySnapshots or, if the index has grown since, ErrSizePassed.
func (s *heldViews) holdRequested(f *Follower, now *snapshot) {
	if now.partial || !f.requestedSize.CompareAndSwap(now.size, 0) {
		return
	}
	if v, err := f.LatestView(); err == nil {
		_, _ = s.add(f, v)
	}
}

// Digest returns the SHA-256 of the rows of all parts, as of the size at which the view was opened.
// Two servers whose indexes have the same size and layout have the same digest.
func (v *View) Digest(ctx context.Context) (digest [sha256.Size]byte, err error) {
	if v.partial {
		return digest, ErrBehind
	}
	all := sha256.New()
	var from []byte
	for more := true; more; {
		var rows []byte
		if rows, from, more, err = v.EncodeSnapshotPart(from, SnapshotPartBytes); err != nil {
			return digest, err
		}
		all.Write(rows)
		if err := ctx.Err(); err != nil {
			return digest, err
		}
	}
	return [sha256.Size]byte(all.Sum(nil)), nil
}

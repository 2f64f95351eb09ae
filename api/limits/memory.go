package limits

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Budget bounds the bytes that requests hold in memory. A caller gets no more
// than is left for all others, so that one caller cannot stall the next. There is one
// Budget for writing and one for reading, so that readers cannot stall writers.
type Budget struct {
	Limit int64         // bytes
	wait  time.Duration // of a request for some of it
	why   Reason
	of    string // what the bytes are of, in a refusal

	mu      sync.Mutex // guards what follows
	taken   int64
	holders map[Holder]*holding // no entries that nothing refers to
	waiting []*waiter           // in the order in which they came

	// claimant is the oldest waiter whose holder has nothing else: it lacks room, and not a
	// share. Shares that hold nothing yet find the bytes claimed for it taken. Without a
	// claim small shares, which fit sooner, could keep a large one waiting for ever. The
	// claim is half of what was free, and half of what is given back since: one that waits
	// takes from others no more than one that holds. Shares that hold something ignore it,
	// since they give back when they are done.
	claimant *waiter // nil: none
	claimed  int64   // bytes
}

// Holder is whose memory it is: an identity, or an address.
type Holder struct {
	Name    string
	Address netip.Prefix
}

// holding is what all shares of a holder have.
type holding struct {
	bytes  int64
	shares int // that hold something, or wait
}

// waiter is a share that waits for n bytes.
type waiter struct {
	share *Share
	n     int64
	ready chan struct{} // closed when it has them
}

func NewBudget(limit int64, wait time.Duration, why Reason, of string) *Budget {
	return &Budget{Limit: limit, wait: wait, why: why, of: of, holders: make(map[Holder]*holding)}
}

// InUse is the number of bytes that are held.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// Share is what one body or answer holds of a budget. It belongs to one goroutine at a
// time.
type Share struct {
	Budget  *Budget
	Who     Holder
	Held    int64
	holding *holding // nil while nothing is held; guarded by budget.mu
}

// Take adds n bytes. If they are not free, it waits for at most budget.wait and then
// refuses with 503; what the share holds already, it keeps. A share that wants more than
// half of the budget gets half: that is the most that a caller gets.
func (s *Share) Take(ctx context.Context, n int64) error {
	b := s.Budget
	if n = min(n, b.Limit/2-s.Held); n <= 0 {
		return nil
	}
	b.mu.Lock()
	if s.holding == nil {
		s.join()
	}
	if b.fits(s, n) {
		b.grant(s, n)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{s, n, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.claim()
	b.mu.Unlock()
	return w.await(ctx)
}

// await waits until the bytes are granted, or gives up.
func (w *waiter) await(ctx context.Context) error {
	b := w.share.Budget
	waiting, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	select {
	case <-w.ready:
		return nil
	case <-waiting.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return nil // granted meanwhile
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	w.share.leaveIfEmpty()
	if b.claimant == w {
		b.serve()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return Refuse(b.why, http.StatusServiceUnavailable, b.wait,
		"the server has no memory left for %s, of this caller or of all (%d bytes); nothing of this one was taken, try again later", b.of, b.Limit)
}

// fits reports whether a share may have n more bytes; the caller holds mu. Its holder may
// have as much as is left for all others.
func (b *Budget) fits(s *Share, n int64) bool {
	left := b.Limit - b.taken
	if s.Held == 0 && b.claimant != nil && b.claimant.share != s {
		left -= b.claimed
	}
	return s.holding.bytes+n <= left
}

// claim finds the claimant, if there is none; the caller holds mu.
func (b *Budget) claim() {
	if b.claimant != nil {
		return
	}
	for _, w := range b.waiting {
		if w.share.holding.bytes == w.share.Held {
			b.claimant, b.claimed = w, min(w.n, (b.Limit-b.taken)/2)
			return
		}
	}
}

// serve grants what fits, in the order in which it was asked for; the caller holds mu.
func (b *Budget) serve() {
	if b.claimant != nil && !slices.Contains(b.waiting, b.claimant) {
		b.claimant, b.claimed = nil, 0
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if !b.fits(w.share, w.n) {
			return false
		}
		b.grant(w.share, w.n)
		close(w.ready)
		if b.claimant == w {
			b.claimant, b.claimed = nil, 0
		}
		return true
	})
	b.claim()
}

func (b *Budget) grant(s *Share, n int64) {
	s.Held += n
	s.holding.bytes += n
	b.taken += n
}

// join finds the holding of a share; the caller holds mu.
func (s *Share) join() {
	h, known := s.Budget.holders[s.Who]
	if !known {
		h = new(holding)
		s.Budget.holders[s.Who] = h
	}
	h.shares++
	s.holding = h
}

// leaveIfEmpty forgets the holding of a share that holds nothing; the caller holds mu.
func (s *Share) leaveIfEmpty() {
	if s.Held > 0 {
		return
	}
	if s.holding.shares--; s.holding.shares == 0 {
		delete(s.Budget.holders, s.Who)
	}
	s.holding = nil
}

// Shrink gives back what is held beyond n bytes.
func (s *Share) Shrink(n int64) {
	back := s.Held - n
	if back <= 0 {
		return
	}
	b := s.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Held = n
	s.holding.bytes -= back
	b.taken -= back
	s.leaveIfEmpty()
	if b.claimant != nil {
		b.claimed = min(b.claimant.n, b.claimed+back/2)
	}
	b.serve()
}

func (s *Share) Release() { s.Shrink(0) }

// Meter returns a reader of body that takes Weight of what it reads for the share. If the
// memory is not free, Read returns the error of Take.
func (s *Share) Meter(ctx context.Context, body io.Reader) io.Reader { return meter{ctx, body, s} }

type meter struct {
	ctx   context.Context
	body  io.Reader
	share *Share
}

// meterStep bounds what is read before it is counted, in bytes.
const meterStep = 64 << 10

// Read implements io.Reader.
func (m meter) Read(p []byte) (int, error) {
	n, err := m.body.Read(p[:min(len(p), meterStep)])
	if n > 0 {
		if short := m.share.Take(m.ctx, Weight(p[:n])); short != nil {
			return 0, short
		}
	}
	return n, err
}

// Weight is what some of a body may take in memory while it is worked on: BodyCopies
// times its bytes, and ValueBytes for each value or name. Where there is one there is one
// of these signs; those within strings are not told apart.
func Weight(b []byte) int64 {
	values := 0
	for _, sign := range [...]string{",", ":", "[", "{"} {
		values += bytes.Count(b, []byte(sign))
	}
	return int64(BodyCopies*len(b) + ValueBytes*values)
}

// What bodies take, beyond what garbage there is: a body in a buffer that has grown, a
// form of it that is hashed, and what is committed; a decoded value beside its text, on a
// tape that has grown.
const (
	BodyCopies = 4
	ValueBytes = 48
)

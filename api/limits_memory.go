package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
)

// memoryBudget bounds the bytes that requests hold in memory. A caller gets no more
// than is left for all others, so that one caller cannot stall the next. There is one
// budget for writing and one for reading, so that readers cannot stall writers.
type memoryBudget struct {
	limit int64         // bytes
	wait  time.Duration // of a request for some of it
	why   refusal
	of    string // what the bytes are of, in a refusal

	mu      sync.Mutex // guards what follows
	taken   int64
	holders map[holder]*holding // no entries that nothing refers to
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

// holder is whose memory it is: an identity, or an address.
type holder struct {
	name    string
	address netip.Prefix
}

// holding is what all shares of a holder have.
type holding struct {
	bytes  int64
	shares int // that hold something, or wait
}

// waiter is a share that waits for n bytes.
type waiter struct {
	share *share
	n     int64
	ready chan struct{} // closed when it has them
}

func newMemoryBudget(limit int64, wait time.Duration, why refusal, of string) *memoryBudget {
	return &memoryBudget{limit: limit, wait: wait, why: why, of: of, holders: make(map[holder]*holding)}
}

// inUse is the number of bytes that are held.
func (b *memoryBudget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// share is what one body or answer holds of a budget. It belongs to one goroutine at a
// time.
type share struct {
	budget  *memoryBudget
	who     holder
	held    int64
	holding *holding // nil while nothing is held; guarded by budget.mu
}

// holderOf is who makes a request.
func (s *Server) holderOf(c echo.Context) holder {
	if name := actor(c); name != ledger.Anonymous {
		return holder{name: name}
	}
	return holder{address: s.address(c)}
}

// holdWriting takes memory for writing for who makes a request.
func (s *Server) holdWriting(c echo.Context) holdMemory {
	return func(bytes int64) (release func(), err error) {
		own := &share{budget: s.limits.writing, who: s.holderOf(c)}
		return own.release, own.take(c.Request().Context(), bytes)
	}
}

// take adds n bytes. If they are not free, it waits for at most budget.wait and then
// refuses with 503; what the share holds already, it keeps. A share that wants more than
// half of the budget gets half: that is the most that a caller gets.
func (s *share) take(ctx context.Context, n int64) error {
	b := s.budget
	if n = min(n, b.limit/2-s.held); n <= 0 {
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
	b := w.share.budget
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
	if gone(ctx) {
		return ctx.Err()
	}
	return refuse(b.why, http.StatusServiceUnavailable, b.wait,
		"the server has no memory left for %s, of this caller or of all (%d bytes); nothing of this one was taken, try again later", b.of, b.limit)
}

// fits reports whether a share may have n more bytes; the caller holds mu. Its holder may
// have as much as is left for all others.
func (b *memoryBudget) fits(s *share, n int64) bool {
	left := b.limit - b.taken
	if s.held == 0 && b.claimant != nil && b.claimant.share != s {
		left -= b.claimed
	}
	return s.holding.bytes+n <= left
}

// claim finds the claimant, if there is none; the caller holds mu.
func (b *memoryBudget) claim() {
	if b.claimant != nil {
		return
	}
	for _, w := range b.waiting {
		if w.share.holding.bytes == w.share.held {
			b.claimant, b.claimed = w, min(w.n, (b.limit-b.taken)/2)
			return
		}
	}
}

// serve grants what fits, in the order in which it was asked for; the caller holds mu.
func (b *memoryBudget) serve() {
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

func (b *memoryBudget) grant(s *share, n int64) {
	s.held += n
	s.holding.bytes += n
	b.taken += n
}

// join finds the holding of a share; the caller holds mu.
func (s *share) join() {
	h, known := s.budget.holders[s.who]
	if !known {
		h = new(holding)
		s.budget.holders[s.who] = h
	}
	h.shares++
	s.holding = h
}

// leaveIfEmpty forgets the holding of a share that holds nothing; the caller holds mu.
func (s *share) leaveIfEmpty() {
	if s.held > 0 {
		return
	}
	if s.holding.shares--; s.holding.shares == 0 {
		delete(s.budget.holders, s.who)
	}
	s.holding = nil
}

// shrink gives back what is held beyond n bytes.
func (s *share) shrink(n int64) {
	back := s.held - n
	if back <= 0 {
		return
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.held = n
	s.holding.bytes -= back
	b.taken -= back
	s.leaveIfEmpty()
	if b.claimant != nil {
		b.claimed = min(b.claimant.n, b.claimed+back/2)
	}
	b.serve()
}

func (s *share) release() { s.shrink(0) }

// meter has a share grow with what is read.
type meter struct {
	ctx   context.Context
	body  io.Reader
	share *share
}

// meterStep bounds what is read before it is counted, in bytes.
const meterStep = 64 << 10

// Read implements io.Reader.
func (m meter) Read(p []byte) (int, error) {
	n, err := m.body.Read(p[:min(len(p), meterStep)])
	if n > 0 {
		if short := m.share.take(m.ctx, weight(p[:n])); short != nil {
			return 0, short
		}
	}
	return n, err
}

// weight is what some of a body may take in memory while it is worked on: bodyCopies
// times its bytes, and valueBytes for each value or name. Where there is one there is one
// of these signs; those within strings are not told apart.
func weight(b []byte) int64 {
	values := 0
	for _, sign := range [...]string{",", ":", "[", "{"} {
		values += bytes.Count(b, []byte(sign))
	}
	return int64(bodyCopies*len(b) + valueBytes*values)
}

// What bodies take, beyond what garbage there is: a body in a buffer that has grown, a
// form of it that is hashed, and what is committed; a decoded value beside its text, on a
// tape that has grown.
const (
	bodyCopies = 4
	valueBytes = 48
)

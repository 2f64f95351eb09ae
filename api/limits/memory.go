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

// MemoryBudget limits the bytes that requests hold in memory. A caller gets at most half of the
// memory that is left, so that one caller cannot stall the next. Reads and writes have separate
// budgets, so that readers cannot stall writers.
type MemoryBudget struct {
	MaxBytes int64         // largest number of bytes that all requests together can hold
	wait     time.Duration // longest time that Take waits
	why      RefusalReason
	purpose  string // what the memory is used for; named in error messages

	mu      sync.Mutex // guards the fields below
	taken   int64
	holders map[Holder]*holding // holders that have at least one share
	waiting []*waiter           // oldest first

	// claimant is the oldest waiter whose holder holds no other memory. It waits for others to
	// release memory, not for its own shares. The bytes claimed for it are not available to shares
	// that hold nothing yet. Otherwise small shares, which fit sooner, could keep a large one
	// waiting forever. Shares that already hold memory ignore the claim, because they release
	// their memory when they finish. A claim is at most half of the memory that was free when it
	// began, plus half of what has been released since. A waiter thus takes no more from others
	// than a holder does.
	claimant *waiter // nil means none
	claimed  int64   // bytes
}

// Holder identifies the caller that memory belongs to: an identity, or an address.
type Holder struct {
	Name    string       // name of the identity; empty for an address
	Address netip.Prefix // network of a caller without credentials
}

// holding is the total of all shares of a holder.
type holding struct {
	bytes  int64
	shares int // number of shares that hold or wait for memory
}

// waiter is a share that waits for n bytes.
type waiter struct {
	share *MemoryShare
	n     int64
	ready chan struct{} // closed when the bytes are granted
}

// NewMemoryBudget returns a budget of limit bytes, for which a request waits at most wait.
func NewMemoryBudget(limit int64, wait time.Duration, reason RefusalReason, purpose string) *MemoryBudget {
	return &MemoryBudget{MaxBytes: limit, wait: wait, why: reason, purpose: purpose, holders: make(map[Holder]*holding)}
}

// BytesInUse returns the number of bytes that are held.
func (b *MemoryBudget) BytesInUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// MemoryShare is the part of a budget that one body or response holds. Only one goroutine can use it
// at a time.
type MemoryShare struct {
	Budget  *MemoryBudget // budget that the share is part of
	Holder  Holder
	Bytes   int64    // number of bytes in the share
	holding *holding // nil while nothing is held; guarded by Budget.mu
}

// Take adds n bytes to the share. If they are not free, it waits. If that takes longer than
// ServerLimits.MaxWait, it returns a 503 RejectedError, and the share keeps what it already holds. A
// share never exceeds half of the budget: if n bytes would exceed that, Take silently adds fewer.
func (s *MemoryShare) Take(ctx context.Context, n int64) error {
	b := s.Budget
	if n = min(n, b.MaxBytes/2-s.Bytes); n <= 0 {
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

// await waits until the bytes are granted, ServerLimits.MaxWait has passed, or the context ends.
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
		return nil // the bytes have just been granted
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	w.share.leaveIfEmpty()
	if b.claimant == w {
		b.serve()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return NewRejectedError(b.why, http.StatusServiceUnavailable, b.wait,
		"too much memory for %s is in use by this caller or in total (limit %d bytes); nothing was recorded; try again later", b.purpose, b.MaxBytes)
}

// fits reports whether s can get n more bytes: its holder must not hold more than the memory that is
// free before the grant. The caller holds mu.
func (b *MemoryBudget) fits(s *MemoryShare, n int64) bool {
	left := b.MaxBytes - b.taken
	if s.Bytes == 0 && b.claimant != nil && b.claimant.share != s {
		left -= b.claimed
	}
	return s.holding.bytes+n <= left
}

// claim chooses the claimant if there is none. The caller holds mu.
func (b *MemoryBudget) claim() {
	if b.claimant != nil {
		return
	}
	for _, w := range b.waiting {
		if w.share.holding.bytes == w.share.Bytes {
			b.claimant, b.claimed = w, min(w.n, (b.MaxBytes-b.taken)/2)
			return
		}
	}
}

// serve grants memory to all waiters whose requests fit, oldest first. The caller holds mu.
func (b *MemoryBudget) serve() {
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

func (b *MemoryBudget) grant(s *MemoryShare, n int64) {
	s.Bytes += n
	s.holding.bytes += n
	b.taken += n
}

// join adds the share to its holder's holding. The caller holds mu.
func (s *MemoryShare) join() {
	h, known := s.Budget.holders[s.Holder]
	if !known {
		h = new(holding)
		s.Budget.holders[s.Holder] = h
	}
	h.shares++
	s.holding = h
}

// leaveIfEmpty removes the share from its holding if it has no bytes left. The caller holds mu.
func (s *MemoryShare) leaveIfEmpty() {
	if s.Bytes > 0 {
		return
	}
	if s.holding.shares--; s.holding.shares == 0 {
		delete(s.Budget.holders, s.Holder)
	}
	s.holding = nil
}

// ShrinkTo releases all but n bytes of the share.
func (s *MemoryShare) ShrinkTo(n int64) {
	back := s.Bytes - n
	if back <= 0 {
		return
	}
	b := s.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Bytes = n
	s.holding.bytes -= back
	b.taken -= back
	s.leaveIfEmpty()
	if b.claimant != nil {
		b.claimed = min(b.claimant.n, b.claimed+back/2)
	}
	b.serve()
}

func (s *MemoryShare) Release() { s.ShrinkTo(0) }

// MeteredReader returns a reader that reads from body and takes memory for what it has read, as
// estimated by MemoryBound. If Take fails, Read returns the error from Take.
func (s *MemoryShare) MeteredReader(ctx context.Context, body io.Reader) io.Reader {
	return meter{ctx, body, s}
}

type meter struct {
	ctx   context.Context
	body  io.Reader
	share *MemoryShare
}

// meterStep is the largest number of bytes to read before memory is taken for them.
const meterStep = 64 << 10

// Read implements io.Reader.
func (m meter) Read(p []byte) (int, error) {
	n, err := m.body.Read(p[:min(len(p), meterStep)])
	if n > 0 {
		if short := m.share.Take(m.ctx, MemoryBound(p[:n])); short != nil {
			return 0, short
		}
	}
	return n, err
}

// MemoryBound returns an upper bound on the memory that a part of a body needs while it is
// processed: BodyMemoryFactor times its bytes, and BytesPerValue for each value or name. It
// estimates the number of values and names by counting JSON punctuation, even inside strings.
func MemoryBound(b []byte) int64 {
	values := 0
	for _, sign := range [...]string{",", ":", "[", "{"} {
		values += bytes.Count(b, []byte(sign))
	}
	return int64(BodyMemoryFactor*len(b) + BytesPerValue*values)
}

const (
	// BodyMemoryFactor is the memory that a body needs, as a multiple of its length. It covers a
	// buffer with spare capacity, the canonical form that is hashed, and the entry and content that
	// are committed.
	BodyMemoryFactor = 4
	// BytesPerValue is the memory, in bytes, that each decoded JSON value or name needs, including
	// spare capacity.
	BytesPerValue = 48
)

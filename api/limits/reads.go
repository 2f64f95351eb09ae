package limits

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ReadScheduler shares the cores between writes and the requests that record nothing. Go's
// scheduler has no priorities, so without a ReadScheduler each step of a commit would wait behind
// every read that computes.
//
// A read computes only while it holds a turn. It ends its turn before it waits for memory, the
// index, or its client. While no write is in progress, as many turns run as there are cores. While
// a write is in progress, one core is reserved for writes. If several writes are in progress, each
// turn is followed by a rest, in which its core does no reads. The rest lasts as long as the turn,
// multiplied by the number of writes in progress beyond the first. Callers take turns in rotation,
// so that a caller with many requests delays each other caller by one turn.
//
// The test "make hostile" attacks a server to show the effect. With turns, writes reach 86% of
// their speed in a control run. Without turns, they reach 64% (docs/performance.md).
type ReadScheduler struct {
	cores int
	wait  time.Duration // longest time that a request waits for its turn

	start  time.Time
	writes atomic.Int64 // number of writes in progress
	ended  atomic.Int64 // when the last write ended, in nanoseconds since start

	mu         sync.Mutex // guards the fields below
	working    int
	restsUntil time.Time // while a write is in progress, no turn begins before this time
	armed      bool      // whether a timer is set to begin the next turn
	callers    map[Holder]*readCaller
	waiting    []*readCaller // callers with waiting requests; the first gets the next turn
}

// mostRest limits how long a core rests after a turn, as a multiple of the duration of the turn.
// longestRest limits the duration of the rest. A write counts as in progress for the duration lull
// after it has ended. Otherwise, reads would start in the short pauses of a client that writes one
// record after another.
const (
	mostRest    = 3
	longestRest = time.Second
	lull        = 2 * time.Millisecond
)

// longestTurn is how long a turn can last before ReadTurn.Yield ends it.
const longestTurn = 10 * time.Millisecond

// readCaller is a caller and its queue of waiting requests, oldest first.
type readCaller struct {
	who   Holder
	queue []*readWaiter
}

// readWaiter is a request that waits for its turn.
type readWaiter struct {
	ready chan struct{} // closed when its turn begins
	gone  bool          // the request has stopped waiting
}

// NewReadScheduler returns a ReadScheduler for the given number of cores. wait is the longest time
// that TakeOrRefuse waits.
func NewReadScheduler(cores int, wait time.Duration) *ReadScheduler {
	return &ReadScheduler{cores: cores, wait: wait, start: time.Now().Add(-lull), callers: make(map[Holder]*readCaller)}
}

// BeginWrite notes that a write is in progress: its body has arrived, but its answer has not begun.
func (t *ReadScheduler) BeginWrite() { t.writes.Add(1) }

// EndWrite notes that a write has ended. It is called once for each call to BeginWrite.
func (t *ReadScheduler) EndWrite() {
	t.ended.Store(int64(time.Since(t.start)))
	t.writes.Add(-1)
}

// writing reports whether a write is in progress, or ended less than lull ago.
func (t *ReadScheduler) writing(now time.Time) bool {
	return t.writes.Load() > 0 || now.Sub(t.start)-time.Duration(t.ended.Load()) < lull
}

// room reports whether another turn may run alongside those in progress. The caller holds mu.
func (t *ReadScheduler) room(now time.Time) bool {
	return t.working < max(1, t.cores-1) || t.working < t.cores && !t.writing(now)
}

// free reports whether a turn can begin now. The caller holds mu.
func (t *ReadScheduler) free(now time.Time) bool {
	return t.room(now) && (!now.Before(t.restsUntil) || !t.writing(now))
}

// begin starts as many of the waiting turns as are allowed. The caller holds mu.
func (t *ReadScheduler) begin(now time.Time) {
	for len(t.waiting) > 0 && t.free(now) {
		if w := t.next(); !w.gone {
			t.working++
			close(w.ready)
		}
	}
	if len(t.waiting) > 0 && t.working < t.cores && !t.armed {
		// No event signals that the writes have ended, so a timer checks.
		delay := lull
		if t.room(now) {
			delay = min(delay, t.restsUntil.Sub(now))
		}
		t.armed = true
		time.AfterFunc(delay, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.armed = false
			t.begin(time.Now())
		})
	}
}

// next removes and returns the waiting request whose turn it is. The caller holds mu.
func (t *ReadScheduler) next() *readWaiter {
	caller := t.waiting[0]
	t.waiting = t.waiting[1:]
	w := caller.queue[0]
	if caller.queue = caller.queue[1:]; len(caller.queue) > 0 {
		t.waiting = append(t.waiting, caller)
	} else {
		delete(t.callers, caller.who)
	}
	return w
}

// join adds a request of the given caller to the caller's queue of waiting requests.
func (t *ReadScheduler) join(who Holder) *readWaiter {
	w := &readWaiter{ready: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	caller := t.callers[who]
	if caller == nil {
		caller = &readCaller{who: who}
		t.callers[who] = caller
		t.waiting = append(t.waiting, caller)
	}
	caller.queue = append(caller.queue, w)
	t.begin(time.Now())
	return w
}

// leave marks a request as no longer waiting. It reports whether the request was still waiting for
// its turn.
func (t *ReadScheduler) leave(w *readWaiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.ready:
		return false
	default:
	}
	w.gone = true
	return true
}

// end ends a turn that began at the given time, and starts waiting turns if there is room for them.
func (t *ReadScheduler) end(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working--
	others := t.writes.Load() - 1
	if others <= 0 && len(t.waiting) == 0 {
		return
	}
	now := time.Now()
	if others > 0 {
		share := max(1, t.cores-1)
		rest := min(now.Sub(began)*time.Duration(min(int(others), mostRest*share))/time.Duration(share), longestRest)
		if t.restsUntil.Before(now) {
			t.restsUntil = now
		}
		t.restsUntil = t.restsUntil.Add(rest)
	}
	t.begin(now)
}

// RunningTurns returns the number of turns that are running.
func (t *ReadScheduler) RunningTurns() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.working
}

// ReadTurn is one request's permission to compute, which it gets from a ReadScheduler. It must only
// be used by the request's goroutine. The zero ReadTurn holds no turn.
type ReadTurn struct {
	turns *ReadScheduler // nil while no turn is held
	began time.Time
}

// try begins a turn if one is free. It reports whether s holds a turn afterwards.
func (s *ReadTurn) try(t *ReadScheduler) bool {
	if s.turns != nil {
		return true
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 || !t.free(now) {
		return false
	}
	t.working++
	s.turns, s.began = t, now
	return true
}

// Take waits for a turn until ctx ends. who returns the caller; Take calls it only if the
// request must wait.
func (s *ReadTurn) Take(ctx context.Context, t *ReadScheduler, who func() Holder) error {
	if s.try(t) {
		return nil
	}
	w := t.join(who())
	select {
	case <-w.ready:
	case <-ctx.Done():
		if t.leave(w) {
			return ctx.Err()
		}
	}
	s.turns, s.began = t, time.Now()
	return nil
}

// TakeOrRefuse is like Take, but returns a 503 RejectedError if the turn does not begin within
// ServerLimits.MaxWait.
func (s *ReadTurn) TakeOrRefuse(ctx context.Context, t *ReadScheduler, who func() Holder) error {
	if s.try(t) {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	err := s.Take(waiting, t, who)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return NewRejectedError(ReasonHeavyWork, http.StatusServiceUnavailable, t.wait,
		"too many requests are waiting for a CPU core; nothing was recorded; try again later")
}

// Yield ends a turn that has lasted at least 10 ms (longestTurn), and then waits for the next one
// until ctx ends.
func (s *ReadTurn) Yield(ctx context.Context, who func() Holder) error {
	if s.turns == nil || time.Since(s.began) < longestTurn {
		return nil
	}
	turns := s.turns
	s.Release()
	return s.Take(ctx, turns, who)
}

// Release ends the turn, if one is held.
func (s *ReadTurn) Release() {
	if s.turns == nil {
		return
	}
	s.turns.end(s.began)
	s.turns = nil
}

package enginelog

import (
	"sync"
	"time"
)

// interval is the minimum time between two logged messages.
const interval = time.Second

// limiter lets one message pass per interval, so that a repeated failure does not flood the log.
// For example, an engine that cannot open files retries tens of thousands of times a second. The
// zero limiter is ready to use and safe for concurrent use.
type limiter struct {
	mu      sync.Mutex // guards the fields below
	next    time.Time  // when the next message may pass
	skipped int        // number of messages skipped since the last one that passed
}

// pass reports whether a message may be logged at time now, and how many messages were skipped
// before it.
func (l *limiter) pass(now time.Time) (ok bool, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.skipped++
		return false, 0
	}
	skipped, l.skipped = l.skipped, 0
	l.next = now.Add(interval)
	return true, skipped
}

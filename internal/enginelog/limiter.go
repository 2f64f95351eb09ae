package enginelog

import (
	"sync"
	"time"
)

// interval is the least time between two messages.
const interval = time.Second

// limiter lets one message pass in each interval, so that what happens over and
// over does not flood the log: an engine that cannot open files tries again tens
// of thousands of times a second. The zero limiter is ready; it is safe for
// concurrent use.
type limiter struct {
	mu      sync.Mutex // guards what follows
	next    time.Time  // when one may pass again
	skipped int        // since the last that passed
}

// pass says whether a message at that time is to be logged, and how many before
// it were not.
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

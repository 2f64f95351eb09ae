// Package quiet keeps what happens over and over from flooding a log: a storage
// engine that cannot open files tries again tens of thousands of times a second.
package quiet

import (
	"sync"
	"time"
)

// Interval is the least time between two messages.
const Interval = time.Second

// Limiter lets one message pass in each Interval. The zero Limiter is ready; it
// is safe for concurrent use.
type Limiter struct {
	mu      sync.Mutex // guards what follows
	next    time.Time  // when one may pass again
	skipped int        // since the last that passed
}

// Pass says whether a message at that time is to be logged, and how many before
// it were not.
func (l *Limiter) Pass(now time.Time) (ok bool, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.skipped++
		return false, 0
	}
	skipped, l.skipped = l.skipped, 0
	l.next = now.Add(Interval)
	return true, skipped
}

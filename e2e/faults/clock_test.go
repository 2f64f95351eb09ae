package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/storage/memory"
)

// The times of events never decrease, even if the clock goes backwards, stands still, or jumps.

func TestClock(t *testing.T) { campaign(t, clockRound) }

// clock is a clock that is always wrong. course specifies how.
type clock struct {
	mu     sync.Mutex // guards the fields below
	r      *rand.Rand
	now    time.Time
	course string
}

// courses lists the ways in which a clock can be wrong.
var courses = []string{"backwards", "still", "ahead and back", "at random", "before 1970", "at the end of time"}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.course {
	case "backwards":
		c.now = c.now.Add(-time.Duration(c.r.Int64N(int64(time.Hour))))
	case "ahead and back":
		return c.now.Add(time.Duration(c.r.Int64N(int64(400*24*time.Hour))) * time.Duration(c.r.IntN(2)))
	case "at random":
		c.now = c.now.Add(time.Duration(c.r.Int64N(int64(time.Hour))) - 30*time.Minute)
	case "before 1970":
		return time.Unix(-c.r.Int64N(1<<35), c.r.Int64N(1e9))
	case "at the end of time":
		return time.Date(9999, 12, 31, 23, 59, 59, c.r.IntN(1e9), time.UTC)
	}
	return c.now
}

// clockRound runs several sessions of one ledger, each with a wrong clock.
func clockRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	w := &storeWorld{history: newHistory(name, r.Uint64()), database: memory.New(), indexFiles: vfs.NewMem(), keys: new(oneKey)}
	for range 4 {
		// Rarely choose the clock at the end of time. Event times never decrease, so all later events have
		// the same time, which hides later faults.
		course := courses[r.IntN(len(courses)-1)]
		if r.IntN(20) == 0 {
			course = courses[len(courses)-1]
		}
		c := &clock{r: rand.New(rand.NewPCG(r.Uint64(), 0)), course: course,
			now: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
		err := w.clockSession(t.Context(), c)
		done.add(tally{faults: map[string]int{course: 1}, receipts: w.history.acknowledgements()})
		if err != nil {
			return done, fmt.Errorf("clock %s: %w", course, err)
		}
	}
	return done, nil
}

func (w *storeWorld) clockSession(ctx context.Context, c *clock) error {
	config := w.config()
	config.clock = c.read
	n, err := openNode(ctx, config)
	if err != nil {
		return err
	}
	if err := errors.Join(n.use(ctx, w.history, 3, 5), n.close()); err != nil {
		return err
	}
	return w.inspect(ctx)
}

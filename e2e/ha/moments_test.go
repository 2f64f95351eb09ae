package ha_test

import (
	"slices"
	"sync"
	"time"
)

// successTimes records the times at which an operation succeeded.
type successTimes struct {
	mu    sync.Mutex
	times []time.Time // guarded by mu
}

func (m *successTimes) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times = append(m.times, time.Now())
}

// after reports whether the operation has succeeded since t.
func (m *successTimes) after(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.times) > 0 && m.times[len(m.times)-1].After(t)
}

// gap is a period in which no operation succeeded.
type gap struct{ from, to time.Time }

func (g gap) length() time.Duration { return g.to.Sub(g.from) }

// gaps returns the periods without success between from and to that are longer than least.
func (m *successTimes) gaps(from, to time.Time, least time.Duration) (found []gap) {
	m.mu.Lock()
	times := append([]time.Time{from, to}, m.times...)
	m.mu.Unlock()
	times = slices.DeleteFunc(times, func(t time.Time) bool { return t.Before(from) || t.After(to) })
	slices.SortFunc(times, time.Time.Compare)
	for i := 1; i < len(times); i++ {
		if g := (gap{times[i-1], times[i]}); g.length() > least {
			found = append(found, g)
		}
	}
	return found
}

// outside returns how much of the gap is not covered by any of the gaps in others.
func (g gap) outside(others []gap) time.Duration {
	rest := g.length()
	for _, o := range others {
		from, to := o.from, o.to
		if from.Before(g.from) {
			from = g.from
		}
		if to.After(g.to) {
			to = g.to
		}
		if to.After(from) {
			rest -= to.Sub(from)
		}
	}
	return rest
}

package limits

import (
	"context"
	"net/http"
	"time"
)

// HeavyWork bounds the work at once that keeps a core busy for milliseconds: making large
// answers, decoding large bodies and long lines of batches. It has half of the cores, and at least two. Go's
// scheduler has no priorities: without the bound each step of a commit waits in a queue
// behind all of this work.
type HeavyWork struct {
	wait time.Duration // of a request for a core

	Cores chan struct{} // holds a token for each that works
	// Reads holds a token for each read that works or is the next to: a write waits behind
	// no more reads than there are cores, however many are under way.
	Reads chan struct{}
}

// Work is heavy from this many bytes of memory on, which it takes meanwhile.
const HeavyMemory = 2 << 20

func newHeavyWork(slots int, wait time.Duration) HeavyWork {
	return HeavyWork{wait: wait, Cores: make(chan struct{}, slots), Reads: make(chan struct{}, slots)}
}

// heavySlot is the right of one call to work on a core. It belongs to the goroutine of
// the request. The zero slot is not held.
//
// Memory comes before a slot: a call gives its slot back before it waits for memory, for
// the index, for a commit or for its client. So each slot that is held is given back
// within the time of the work itself.
type heavySlot struct {
	work *HeavyWork // nil while the slot is not held
	read bool
}

// Take waits until a core is free, or until ctx is done.
func (s *heavySlot) Take(ctx context.Context, work *HeavyWork, read bool) error {
	if s.work != nil {
		return nil
	}
	if read {
		select {
		case work.Reads <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case work.Cores <- struct{}{}:
		s.work, s.read = work, read
		return nil
	case <-ctx.Done():
		if read {
			<-work.Reads
		}
		return ctx.Err()
	}
}

// TakeWithin is take that waits at most work.wait and then refuses with 503.
func (s *heavySlot) TakeWithin(ctx context.Context, work *HeavyWork, read bool) error {
	waiting, cancel := context.WithTimeout(ctx, work.wait)
	defer cancel()
	err := s.Take(waiting, work, read)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return Refuse(RefusedHeavy, http.StatusServiceUnavailable, work.wait,
		"too many large requests and answers are worked on (at most %d at once); nothing of this one was taken, try again later", cap(work.Cores))
}

// Release may be called without a slot.
func (s *heavySlot) Release() {
	if s.work == nil {
		return
	}
	<-s.work.Cores
	if s.read {
		<-s.work.Reads
	}
	s.work = nil
}

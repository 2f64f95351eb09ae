package limits

import (
	"context"
	"net/http"
	"time"
)

// HeavyWork bounds how many requests do work at once that keeps a core busy for milliseconds:
// building large responses, decoding large bodies and long lines of batches. Go's scheduler
// has no priorities: without the bound, each step of a commit would queue behind all of this
// work.
type HeavyWork struct {
	wait time.Duration // of a request for a core

	Cores chan struct{} // one token for each request that works
	// Reads has a token for each read that works or is next. A write therefore waits behind at
	// most as many reads as there are cores.
	Reads chan struct{}
}

// HeavyMemory is the number of bytes of memory from which on work is heavy.
const HeavyMemory = 2 << 20

func newHeavyWork(slots int, wait time.Duration) HeavyWork {
	return HeavyWork{wait: wait, Cores: make(chan struct{}, slots), Reads: make(chan struct{}, slots)}
}

// heavySlot is the right of one request to work on a core. It belongs to the goroutine of the
// request. The zero heavySlot is not held.
//
// A request takes memory before a slot. It releases its slot before it waits for memory, the
// index, a commit, or its client. Every slot is therefore released within the time of the work
// itself.
type heavySlot struct {
	work *HeavyWork // nil while the slot is not held
	read bool
}

// Take waits until a core is free or ctx is done.
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

// TakeWithin is Take that waits at most Load.Wait and then returns a 503 Refusal.
func (s *heavySlot) TakeWithin(ctx context.Context, work *HeavyWork, read bool) error {
	waiting, cancel := context.WithTimeout(ctx, work.wait)
	defer cancel()
	err := s.Take(waiting, work, read)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return Refuse(RefusedHeavy, http.StatusServiceUnavailable, work.wait,
		"too many large requests and responses are in progress (at most %d at once); nothing was recorded, try again later", cap(work.Cores))
}

// Release gives the slot back, if it is held.
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

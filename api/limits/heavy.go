package limits

import (
	"context"
	"net/http"
	"time"
)

// HeavyWorkLimiter limits how many writes decode a large body or a long line of a batch at the same
// time. Such decoding keeps a core busy for milliseconds. Go's scheduler has no priorities, so
// without this limit each step of a commit would wait behind all of this work. Reads are scheduled
// by ReadScheduler instead.
type HeavyWorkLimiter struct {
	wait time.Duration // longest time that a request waits for a core

	Slots chan struct{} // holds one token for each write that is decoding
}

// HeavyThresholdBytes is the threshold, in bytes of memory, at which a write counts as heavy work.
const HeavyThresholdBytes = 2 << 20

func newHeavyWorkLimiter(slots int, wait time.Duration) HeavyWorkLimiter {
	return HeavyWorkLimiter{wait: wait, Slots: make(chan struct{}, slots)}
}

// heavySlot is one request's permission to compute on a core. Only the request's goroutine can use
// it. The zero heavySlot holds no slot.
//
// A request reserves memory before it takes a slot. It releases its slot before it waits for
// memory, the index, a commit, or its client. A slot is therefore held only while the request
// computes.
type heavySlot struct {
	work *HeavyWorkLimiter // nil while the slot is not held
}

// Take waits until a core is free. If that takes longer than ServerLimits.MaxWait, it returns a 503
// RejectedError.
func (s *heavySlot) Take(ctx context.Context, work *HeavyWorkLimiter) error {
	if s.work != nil {
		return nil
	}
	switch taken, err := takeToken(ctx, work.Slots, work.wait); {
	case err != nil:
		return err
	case taken:
		s.work = work
		return nil
	}
	return NewRejectedError(ReasonHeavyWork, http.StatusServiceUnavailable, work.wait,
		"too many large requests are in progress (limit %d); nothing was recorded; try again later", cap(work.Slots))
}

// Release returns the slot, if it is held.
func (s *heavySlot) Release() {
	if s.work == nil {
		return
	}
	<-s.work.Slots
	s.work = nil
}

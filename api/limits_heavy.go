package api

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// heavyWork bounds the work at once that keeps a core busy for milliseconds: making large
// answers, decoding large bodies and long lines of batches. It has half of the cores, and at least two. Go's
// scheduler has no priorities: without the bound each step of a commit waits in a queue
// behind all of this work.
type heavyWork struct {
	wait time.Duration // of a request for a core

	cores chan struct{} // holds a token for each that works
	// reads holds a token for each read that works or is the next to: a write waits behind
	// no more reads than there are cores, however many are under way.
	reads chan struct{}
}

// Work is heavy from this many bytes of memory on, which it takes meanwhile.
const heavyMemory = 2 << 20

func newHeavyWork(slots int, wait time.Duration) heavyWork {
	return heavyWork{wait: wait, cores: make(chan struct{}, slots), reads: make(chan struct{}, slots)}
}

// heavySlot is the right of one call to work on a core. It belongs to the goroutine of
// the request. The zero slot is not held.
//
// Memory comes before a slot: a call gives its slot back before it waits for memory, for
// the index, for a commit or for its client. So each slot that is held is given back
// within the time of the work itself.
type heavySlot struct {
	work *heavyWork // nil while the slot is not held
	read bool
}

// take waits until a core is free, or until ctx is done.
func (s *heavySlot) take(ctx context.Context, work *heavyWork, read bool) error {
	if s.work != nil {
		return nil
	}
	if read {
		select {
		case work.reads <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case work.cores <- struct{}{}:
		s.work, s.read = work, read
		return nil
	case <-ctx.Done():
		if read {
			<-work.reads
		}
		return ctx.Err()
	}
}

// giveBack may be called without a slot.
func (s *heavySlot) giveBack() {
	if s.work == nil {
		return
	}
	<-s.work.cores
	if s.read {
		<-s.work.reads
	}
	s.work = nil
}

// beginHeavy has a call hold a slot if its work takes that many bytes of memory, which it
// holds already. The slot is given back when the answer begins, or earlier by endHeavy. A
// call waits for at most Load.Wait and is then refused with 503, unless its answer has begun.
func beginHeavy(c echo.Context, memory int64, read bool) error {
	own, is := c.(*call)
	if !is || memory < heavyMemory || own.committed {
		return nil
	}
	ctx, work := c.Request().Context(), &own.server.limits.heavy
	if c.Response().Committed {
		return own.writer.slot.take(ctx, work, read)
	}
	waiting, cancel := context.WithTimeout(ctx, work.wait)
	defer cancel()
	err := own.writer.slot.take(waiting, work, read)
	if err == nil || gone(ctx) {
		return err
	}
	return refuse(refusedHeavy, http.StatusServiceUnavailable, work.wait,
		"too many large requests and answers are worked on (at most %d at once); nothing of this one was taken, try again later", cap(work.cores))
}

// beginDecoding is beginHeavy for work on a body.
func (s *Server) beginDecoding(c echo.Context, body *requestBody) error {
	return beginHeavy(c, body.share.held, body.share.budget == s.limits.reading)
}

// endHeavy gives the slot of a call back.
func endHeavy(c echo.Context) {
	if own, is := c.(*call); is {
		own.writer.slot.giveBack()
	}
}

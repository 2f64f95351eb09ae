package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/ledger"
)

const eventStream = "text/event-stream"

// followEvents answers the events of a ledger as they come, as server-sent events
// (spec: Requests): from the one after Last-Event-ID, else from the parameter from, else from
// the head.
func (s *Server) followEvents(c echo.Context, l *ledger.Ledger) error {
	size := l.Head().Size
	next, err := followFrom(c, size)
	if err != nil {
		return err
	}
	who := s.caller(c)
	if !s.limits.followers.takeShare(who) {
		return refuse(refusedFollowers, http.StatusServiceUnavailable, s.limits.load.Heartbeat,
			"too many clients follow events, of this caller or of all (%d); try again later", s.limits.load.Followers)
	}
	defer s.limits.followers.give(who)
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, eventStream)
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(asOf, decimal(size))
	h.Set("X-Accel-Buffering", "no") // a proxy is not to wait until it has more
	c.Response().WriteHeader(http.StatusOK)
	out := writerOf(c)
	if out.head {
		return nil
	}
	beat := time.NewTicker(s.limits.load.Heartbeat)
	defer beat.Stop()
	f := &follower{ledger: l, stream: s.streams.stream(l), frames: s.streams.frames, pace: s.limits.pace, out: out,
		hold:    func(bytes int64) error { return holdAnswer(c, bytes) },
		allowed: s.stillAllowed(c, access.Log|access.Read), ending: s.streams.ending, beat: beat.C, next: next}
	if err := f.run(c.Request().Context()); !errors.Is(err, errUnread) {
		return err
	}
	return nil // there is nobody to tell
}

// followFrom is the first event that a follower wants. A browser that reconnects
// sends both; what it has seen counts.
func followFrom(c echo.Context, size uint64) (uint64, error) {
	from := size
	if err := query(c, count("from", &from, nil)); err != nil {
		return 0, err
	}
	const name = "Last-Event-ID"
	if last := c.Request().Header.Get(name); last != "" {
		seen, err := parseCount(name, last)
		if err != nil {
			return 0, err
		}
		if seen >= size {
			return 0, invalid(name, "is beyond the head: the ledger has %d events, the last with the id %d; was it another one?", size, size-1)
		}
		return seen + 1, nil
	}
	if from > size {
		return 0, invalid("from", "is beyond the head: the ledger has %d events", size)
	}
	return from, nil
}

// follower is one client that follows the events of a ledger. It belongs to the
// goroutine of its request.
type follower struct {
	ledger  *ledger.Ledger
	stream  *stream
	frames  *frames
	pace    *followPace
	out     *patientWriter
	allowed func() error            // nil while the client may still follow
	hold    func(bytes int64) error // of the memory for answers, while a block is sent
	ending  <-chan struct{}
	beat    <-chan time.Time
	next    uint64 // seq of the first event that it was not sent
}

// Why a follower ends.
var (
	// errUnread: he is gone or too slow.
	errUnread = errors.New("the follower does not read")
	// errEnding: the server ends.
	errEnding = errors.New("the server is ending; connect again with Last-Event-ID")
)

// The times after which a client is to connect again, in milliseconds: where the
// connection broke off, and where nothing new will come.
const (
	retrySoon  = 2_000
	retryNever = 86_400_000
)

// run sends events for as long as there may be more and the client reads them. How
// it ends the client is told; an error that it returns is no answer any more.
func (f *follower) run(ctx context.Context) error {
	err := f.write(fmt.Appendf(nil, ": events from %d on\nretry: %d\n\n", f.next, retrySoon))
	for err == nil {
		if err = f.allowed(); err != nil {
			break
		}
		news, frozen := f.stream.changed()
		// After that: a commit between the two closes the channel.
		switch head := f.ledger.Head().Size; {
		case f.next < head:
			err = f.send(ctx, head)
		case frozen:
			return f.farewell("frozen", retryNever, fmt.Sprintf("the ledger is frozen: its %d events are all that there will be", head))
		default:
			err = wait(ctx, f, news)
		}
	}
	var refused *problem
	switch {
	case errors.Is(err, errEnding):
		return f.farewell("closing", retrySoon, err.Error())
	case errors.As(err, &refused):
		return f.farewell("refused", retrySoon, refused.Detail)
	case gone(ctx):
		return errUnread
	}
	return err
}

// send sends one block, and waits until it is his turn again.
func (f *follower) send(ctx context.Context, head uint64) error {
	b, err := f.frames.at(ctx, f.ledger, f.next, head)
	if err != nil {
		return err
	}
	if err := f.hold(int64(len(b.bytes))); err != nil {
		return err
	}
	if err := f.write(b.bytes); err != nil {
		return err
	}
	if err := f.hold(0); err != nil {
		return err
	}
	f.next = b.next
	turn := time.NewTimer(f.pace.pay(len(b.bytes)))
	defer turn.Stop()
	return wait(ctx, f, turn.C)
}

// wait waits for something, and gives signs of life.
func wait[T any](ctx context.Context, f *follower, until <-chan T) error {
	for {
		select {
		case <-until:
			return nil
		case <-f.beat:
			if err := f.allowed(); err != nil {
				return err
			}
			if err := f.write([]byte(":\n\n")); err != nil {
				return err
			}
		case <-f.ending:
			return errEnding
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// farewell says why no more events come.
func (f *follower) farewell(name string, retry int, why string) error {
	data, err := json.Marshal(struct {
		Detail string `json:"detail"`
		Next   uint64 `json:"next"` // seq of the first event that was not sent
	}{why, f.next})
	if err != nil {
		return err
	}
	return f.write(fmt.Appendf(nil, "event: %s\nretry: %d\ndata: %s\n\n", name, retry, data))
}

// write has a client sent something now, and drops him if he does not take it.
func (f *follower) write(b []byte) error {
	_, err := f.out.Write(b)
	if err == nil {
		err = f.out.FlushError()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	f.out.rest()
	return nil
}

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
	"colophon/api/limits"
	"colophon/ledger"
	questions "colophon/ledger/query"
)

const eventStream = "text/event-stream"

// followEvents streams the events of a ledger as server-sent events (spec: Requests). The
// stream begins after the header Last-Event-ID, else at the parameter from, else at the head.
func (s *Server) followEvents(c echo.Context, l *ledger.Ledger) error {
	size := l.Head().Size
	next, err := followFrom(c, size)
	if err != nil {
		return err
	}
	who := s.caller(c)
	if !s.limits.Followers.TakeShare(who) {
		return limits.Refuse(limits.RefusedFollowers, http.StatusServiceUnavailable, s.limits.Load.Heartbeat,
			"too many clients follow events, of this caller or of all (%d); try again later", s.limits.Load.Followers)
	}
	defer s.limits.Followers.Release(who)
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, eventStream)
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(asOf, decimal(size))
	h.Set("X-Accel-Buffering", "no") // a proxy must not buffer the stream
	c.Response().WriteHeader(http.StatusOK)
	out := limits.WriterOf(c)
	if out.IsHead() {
		return nil
	}
	beat := time.NewTicker(s.limits.Load.Heartbeat)
	defer beat.Stop()
	f := &follower{ledger: l, stream: s.streams.stream(l), frames: s.streams.frames, pace: s.limits.Pace, out: out,
		hold:    func(bytes int64) error { return holdAnswer(c, bytes) },
		allowed: s.stillAllowed(c, access.Log|access.Read), ending: s.streams.ending, beat: beat.C, next: next}
	if err := f.run(c.Request().Context()); !errors.Is(err, errUnread) {
		return err
	}
	return nil // the client is gone
}

// followFrom returns the seq of the first event to send. A browser that reconnects sends both
// Last-Event-ID and from; Last-Event-ID wins.
func followFrom(c echo.Context, size uint64) (uint64, error) {
	from := size
	if err := query(c, count("from", &from, nil)); err != nil {
		return 0, err
	}
	const name = "Last-Event-ID"
	if last := c.Request().Header.Get(name); last != "" {
		seen, err := questions.ParseCount(name, last)
		if err != nil {
			return 0, err
		}
		if seen >= size {
			return 0, invalid(name, "is beyond the head: the ledger has %d events, the last with the id %d; the id may be of another ledger", size, size-1)
		}
		return seen + 1, nil
	}
	if from > size {
		return 0, invalid("from", "is beyond the head: the ledger has %d events", size)
	}
	return from, nil
}

// follower is one client that follows the events of a ledger. Only the goroutine of its
// request uses it.
type follower struct {
	ledger  *ledger.Ledger
	stream  *stream
	frames  *frames
	pace    *limits.FollowPace
	out     *limits.Writer
	allowed func() error            // returns an error once the client may no longer follow
	hold    func(bytes int64) error // holds memory for answers while a block is sent
	ending  <-chan struct{}
	beat    <-chan time.Time
	next    uint64 // seq of the next event to send
}

// The reasons why a follower ends.
var (
	// errUnread means that the client has gone or reads too slowly.
	errUnread = errors.New("the follower does not read")
	// errEnding means that the server shuts down.
	errEnding = errors.New("the server is shutting down; connect again with Last-Event-ID")
)

// Reconnection times for the client, in milliseconds: after a broken connection, and after the
// ledger was frozen.
const (
	retrySoon  = 2_000
	retryNever = 86_400_000
)

// run sends events until the client stops reading, the server shuts down, or the ledger is
// frozen. The stream itself tells the client why it ends. An error that run returns must not
// be answered, because the header is sent already.
func (f *follower) run(ctx context.Context) error {
	err := f.write(fmt.Appendf(nil, ": events from %d on\nretry: %d\n\n", f.next, retrySoon))
	for err == nil {
		if err = f.allowed(); err != nil {
			break
		}
		changes, frozen := f.stream.changed()
		// The head is read after the channel is taken. A commit in between closes the channel.
		switch head := f.ledger.Head().Size; {
		case f.next < head:
			err = f.send(ctx, head)
		case frozen:
			return f.sendEnd("frozen", retryNever, fmt.Sprintf("the ledger is frozen: no more events follow its first %d", head))
		default:
			err = wait(ctx, f, changes)
		}
	}
	var refused *limits.Refusal
	var forbidden *problem
	switch {
	case errors.Is(err, errEnding):
		return f.sendEnd("closing", retrySoon, err.Error())
	case errors.As(err, &refused):
		return f.sendEnd("refused", retrySoon, refused.Detail)
	case errors.As(err, &forbidden):
		return f.sendEnd("refused", retrySoon, forbidden.Detail)
	case gone(ctx):
		return errUnread
	}
	return err
}

// send sends one block, then waits for the follower's share of the bandwidth.
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
	turn := time.NewTimer(f.pace.Delay(len(b.bytes)))
	defer turn.Stop()
	return wait(ctx, f, turn.C)
}

// wait waits until a channel delivers or closes, and sends a comment on every heartbeat.
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

// sendEnd tells the client why no more events follow.
func (f *follower) sendEnd(name string, retry int, why string) error {
	data, err := json.Marshal(struct {
		Detail string `json:"detail"`
		Next   uint64 `json:"next"` // seq of the first event that was not sent
	}{why, f.next})
	if err != nil {
		return err
	}
	return f.write(fmt.Appendf(nil, "event: %s\nretry: %d\ndata: %s\n\n", name, retry, data))
}

// write sends bytes at once. It returns errUnread if the client does not read them in time.
func (f *follower) write(b []byte) error {
	_, err := f.out.Write(b)
	if err == nil {
		err = f.out.FlushError()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	f.out.ClearDeadline()
	return nil
}

package log

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/query"
)

const eventStream = "text/event-stream"

// followEvents streams the events of a ledger as server-sent events (spec: Requests). The stream
// begins after the event given in the Last-Event-ID header. Without that header, it begins at the
// event given in the from parameter, or at the head if that is missing too.
func (h *Handlers) followEvents(c *call.Call, l *ledger.Ledger) error {
	size := l.Head().Size
	next, err := followFrom(c, size)
	if err != nil {
		return err
	}
	return h.follow(c, l, size, access.ScopeLog|access.ScopeRead, func(f *follower) error {
		f.next = next
		return f.run(c.Request().Context())
	})
}

// follow takes a slot for followers, begins the response, and calls run. The follower stops once
// the caller has lost all of the given scopes.
func (h *Handlers) follow(c *call.Call, l *ledger.Ledger, size uint64, scopes access.Scopes, run func(*follower) error) error {
	who := c.LimitKey()
	if !h.Limiter.FollowerSlots.TakeShare(who) {
		return limits.NewRejectedError(limits.ReasonFollowers, http.StatusServiceUnavailable, h.Limiter.Limits.HeartbeatInterval,
			"too many event streams are open: the server allows %d in total, and each caller only a share of them; close some, or try again later", h.Limiter.Limits.MaxFollowers)
	}
	defer h.Limiter.FollowerSlots.Release(who)
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, eventStream)
	header.Set(echo.HeaderCacheControl, "no-store")
	header.Set(echo.HeaderVary, echo.HeaderAccept)
	header.Set(call.AsOfHeader, strconv.FormatUint(size, 10))
	header.Set("X-Accel-Buffering", "no") // a proxy must not buffer the stream
	c.Response().WriteHeader(http.StatusOK)
	out := c.Writer()
	if out.OmitsBody() {
		return nil
	}
	beat := time.NewTicker(h.Limiter.Limits.HeartbeatInterval)
	defer beat.Stop()
	err := run(&follower{ledger: l, stream: h.streams.stream(l), frames: h.streams.frames, pace: h.Limiter.FollowerLimiter, out: out,
		hold: c.HoldReadMemory, allowed: c.ScopeRechecker(scopes), ending: h.streams.ending, beat: beat.C})
	if errors.Is(err, errUnread) {
		return nil // the client no longer reads the response
	}
	return err
}

// followFrom returns the seq of the first event to send. A browser that reconnects sends both
// Last-Event-ID and from; Last-Event-ID takes precedence.
func followFrom(c *call.Call, size uint64) (uint64, error) {
	from := size
	if err := c.ParseParameters(call.UintParameter("from", &from, nil)); err != nil {
		return 0, err
	}
	const name = "Last-Event-ID"
	if last := c.Request().Header.Get(name); last != "" {
		seen, err := query.ParseUint(name, last)
		if err != nil {
			return 0, err
		}
		if seen >= size {
			return 0, problem.InvalidParameter(name, "is beyond the head: the ledger has %d events, with ids up to %d; the given id might belong to a different ledger", size, size-1)
		}
		return seen + 1, nil
	}
	if from > size {
		return 0, problem.InvalidParameter("from", "is beyond the head: the ledger has %d events", size)
	}
	return from, nil
}

// follower is one client that follows the events of a ledger. Only the goroutine of its
// request uses it.
type follower struct {
	ledger  *ledger.Ledger
	stream  *stream
	frames  *frames
	pace    *limits.FollowerLimiter
	out     *limits.Writer
	allowed func() error            // returns an error once the client has lost the right to follow
	hold    func(bytes int64) error // reserves memory for a block while it is sent
	ending  <-chan struct{}
	beat    <-chan time.Time
	next    uint64 // seq of the next event to send
}

// The reasons why a follower's stream ends.
var (
	errUnread = errors.New("the client has disconnected or reads too slowly")
	errEnding = errors.New("the server is shutting down; connect again with Last-Event-ID")
)

// Delays, in milliseconds, after which a client reconnects: retryNever after the ledger was
// frozen, and retrySoon in all other cases.
const (
	retrySoon  = 2_000
	retryNever = 86_400_000
)

// run sends events until the client stops reading, the server shuts down, or the ledger is frozen.
// The stream itself tells the client why it ends. The caller must not send the error to the client,
// because the header of the response has already been sent.
func (f *follower) run(ctx context.Context) error {
	err := f.write(fmt.Appendf(nil, ": events starting at %d\nretry: %d\n\n", f.next, retrySoon))
	for err == nil {
		if err = f.allowed(); err != nil {
			break
		}
		changes, frozen := f.stream.changed()
		// The channel is obtained before the head is read, so that a commit between the two steps closes
		// the channel and is not missed.
		switch head := f.ledger.Head().Size; {
		case f.next < head:
			err = f.send(ctx, head)
		case frozen:
			return f.sendEnd("frozen", retryNever, fmt.Sprintf("the ledger is frozen: no events follow the first %d", head))
		default:
			err = wait(ctx, f, changes)
		}
	}
	return f.end(ctx, err)
}

// end tells the client why the stream ends, unless the client has disconnected.
func (f *follower) end(ctx context.Context, err error) error {
	var refused *limits.RejectedError
	var forbidden *problem.Problem
	switch {
	case errors.Is(err, errEnding):
		return f.sendEnd("closing", retrySoon, err.Error())
	case errors.As(err, &refused):
		return f.sendEnd("refused", retrySoon, refused.Detail)
	case errors.As(err, &forbidden):
		return f.sendEnd("refused", retrySoon, forbidden.Detail)
	case ctx.Err() != nil:
		return errUnread
	}
	return err
}

// send sends one block, and then waits until the follower's share of the bandwidth allows the next
// one.
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

// wait blocks until the channel passed as until delivers a value or is closed. At every
// heartbeat, it checks that the follower still has access and sends a comment.
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

// sendEnd sends the event that tells the client why the stream ends.
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

// write sends b immediately. It returns errUnread if the client does not read it in time.
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

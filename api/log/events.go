package log

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/proofs"
	"colophon/storage"
)

// eventLine is one line of the answer to GET /events (spec: Requests).
type eventLine struct {
	Seq       uint64          `json:"seq"`
	EventHash string          `json:"event_hash"` // 64 hexadecimal digits
	Entry     []byte          `json:"entry"`      // previous event_hash, followed by the event body
	Event     json.RawMessage `json:"event"`      // event body
}

func eventLineOf(seq uint64, entry []byte) (eventLine, error) {
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return eventLine{}, fmt.Errorf("parsing entry %d: %w", seq, err)
	}
	hash := proofs.EventHash(prev, body)
	return eventLine{Seq: seq, EventHash: hex.EncodeToString(hash[:]), Entry: entry, Event: body}, nil
}

// ServeEvents sends a page of the log as NDJSON, in order. If the client prefers an event stream,
// ServeEvents streams the events instead (see followEvents).
func (h *Handlers) ServeEvents(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if call.PreferredMediaType(c.Request()) == eventStream {
		return h.followEvents(c, l)
	}
	var from uint64
	rows := min(query.DefaultPageLimit, h.Limiter.Limits.MaxPageRows)
	if err := c.ParseParameters(call.UintParameter("from", &from, nil), call.LimitParameter(&rows, h.Limiter.Limits.MaxPageRows)); err != nil {
		return err
	}
	head := l.Head()
	if from > head.Size {
		return problem.InvalidParameter("from", "is beyond the head: the ledger has %d events", head.Size)
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, call.NDJSONMediaType)
	header.Set(echo.HeaderVary, echo.HeaderAccept)
	header.Set(call.AsOfHeader, strconv.FormatUint(head.Size, 10))
	if end := min(from+uint64(rows), head.Size); end < head.Size {
		header.Set("Link", fmt.Sprintf(`</v1/ledgers/%s/events?from=%d&limit=%d>; rel="next"`, l.Name(), end, rows))
	}
	return sendEvents(c, l, from, min(from+uint64(rows), head.Size))
}

// blockMemory is an upper bound, in bytes, on the memory needed for a block of lines. It includes
// the entries as they are read from the store.
const blockMemory = 2 << 20

// sendEvents sends the lines of the events with from <= seq < to, in blocks. It keeps no iterator
// open while it sends a block, because the iterator would pin memory in the store for as long as
// the client takes to read.
func sendEvents(c *call.Call, l *ledger.Ledger, from, to uint64) error {
	text := call.NewBuffer()
	defer text.Release()
	if err := c.HoldReadMemory(blockMemory); err != nil {
		return err
	}
	for from < to {
		err := c.BeginRead()
		if err != nil {
			return err
		}
		if from, err = appendEvents(c.Request().Context(), text, l, from, to); err != nil {
			return err
		}
		if err := c.HoldReadMemory(int64(cap(text.Text))); err != nil {
			return err
		}
		if _, err := c.Response().Write(text.Text); err != nil {
			return err
		}
		text.Text = text.Text[:0]
	}
	return nil
}

// appendEvents appends one block of lines to text, for events with from <= seq < to. next is the
// seq that follows the last line.
func appendEvents(ctx context.Context, text *call.Buffer, l *ledger.Ledger, from, to uint64) (next uint64, err error) {
	for entry, err := range l.Reader().Entries(ctx, from) {
		if err != nil {
			return from, fmt.Errorf("reading entries starting at %d: %w", from, err)
		}
		if entry.Seq >= to || len(text.Text) >= limits.MaxWriteBytes {
			return entry.Seq, nil
		}
		line, err := eventLineOf(entry.Seq, entry.Bytes)
		if err != nil {
			return from, err
		}
		if err := call.EncodeJSON(text, line); err != nil {
			return from, err
		}
	}
	return to, nil
}

// ServeEventByHash sends the event whose event_hash equals the hash in the path, or begins with the
// digits in the path.
func (h *Handlers) ServeEventByHash(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	head := l.Head()
	hash, err := proofs.ParseHash(c.Param("hash"))
	if err != nil {
		if hash, err = h.eventWith(c, l, head, c.Param("hash")); err != nil {
			return err
		}
	}
	seq, err := h.Index.Follower(l.Name()).FindByHash(ctx, hash, 0)
	if errors.Is(err, storage.ErrNotFound) {
		var follower *index.Follower
		c.EndHeavyWork() // let other requests work while this one waits for the index
		if follower, err = h.WaitForIndex(ctx, l, head.Size); err != nil {
			return err
		}
		seq, err = follower.FindByHash(ctx, hash, head.Size)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && seq >= head.Size {
		return problem.New(http.StatusNotFound, "none of the first %d events has the given event_hash", head.Size)
	}
	if err != nil {
		return err
	}
	entry, err := l.Reader().Entry(ctx, seq)
	if err != nil {
		return err
	}
	found, err := eventLineOf(seq, entry)
	if err != nil {
		return err
	}
	c.Response().Header().Set(call.AsOfHeader, strconv.FormatUint(head.Size, 10))
	return c.AnswerJSON(http.StatusOK, found)
}

var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,63}$`)

// eventWith returns the hash of the event whose hash begins with digits. It returns an error unless
// exactly one event matches.
func (h *Handlers) eventWith(c *call.Call, l *ledger.Ledger, head *ledger.Head, digits string) (hash proofs.Hash, err error) {
	if !hashPrefix.MatchString(digits) {
		return hash, problem.InvalidParameter("event_hash", "must be 8 to 64 lower-case hexadecimal digits")
	}
	c.EndHeavyWork() // let other requests work while this one waits for the index
	ctx := c.Request().Context()
	follower, err := h.WaitForIndex(ctx, l, head.Size)
	if err != nil {
		return hash, err
	}
	found, err := index.FindByHashPrefix(ctx, follower, digits, head.Size)
	switch {
	case err != nil:
		return hash, err
	case len(found) == 0:
		return hash, problem.New(http.StatusNotFound, "none of the first %d events has a hash that begins with %s", head.Size, digits)
	case len(found) == 1:
		return found[0].Hash, nil
	}
	list := make([]string, len(found))
	for i, e := range found {
		list[i] = hex.EncodeToString(e.Hash[:])
	}
	return hash, problem.InvalidParameter("event_hash", "matches several hashes: %s; give more digits", strings.Join(list, ", "))
}

package log

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/client/wire"
	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
)

// Limits on the summaries that ServeLiveSummary sends.
const (
	liveEvery  = time.Second // minimum time between two summaries to a client
	liveEvents = 10          // maximum number of events in a summary
)

// ServeLiveSummary sends a summary of a ledger: its size, its counters, and its newest events. If
// the client prefers an event stream, ServeLiveSummary sends a summary whenever the ledger has
// grown, at most one per second. The id of a summary is the tree size.
func (h *Handlers) ServeLiveSummary(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	if call.PreferredMediaType(c.Request()) != eventStream {
		now, err := h.summaries.at(c.Request().Context(), l, h.Index.Follower(l.Name()))
		if err != nil {
			return err
		}
		c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
		return c.AnswerText(http.StatusOK, echo.MIMEApplicationJSON, now.data)
	}
	return h.follow(c, l, l.Head().Size, access.ScopeRead, func(f *follower) error {
		return f.runLive(c.Request().Context(), func(ctx context.Context) (*summary, error) {
			return h.summaries.at(ctx, l, h.Index.Follower(l.Name()))
		})
	})
}

// runLive sends summaries until the client stops reading, the server shuts down, or the ledger is
// frozen.
func (f *follower) runLive(ctx context.Context, next func(context.Context) (*summary, error)) error {
	err := f.write(fmt.Appendf(nil, "retry: %d\n\n", retrySoon))
	for sent := (sizes{}); err == nil; {
		if err = f.allowed(); err != nil {
			break
		}
		changes, frozen := f.stream.changed()
		var now *summary
		if now, err = next(ctx); err != nil {
			break
		}
		f.next = now.head
		switch {
		case now.sizes != sent:
			if err = f.sendSummary(ctx, now); err == nil {
				sent = now.sizes
			}
		case now.index < now.head: // wait until the index catches up
			err = f.pause(ctx, liveEvery)
		case frozen:
			return f.sendEnd("frozen", retryNever, fmt.Sprintf("the ledger is frozen: no events follow the first %d", now.head))
		default:
			err = wait(ctx, f, changes)
		}
	}
	return f.end(ctx, err)
}

// sendSummary sends a summary, then waits until the next one may be sent.
func (f *follower) sendSummary(ctx context.Context, s *summary) error {
	if err := f.write(s.frame); err != nil {
		return err
	}
	return f.pause(ctx, max(liveEvery, f.pace.Delay(len(s.frame))))
}

func (f *follower) pause(ctx context.Context, d time.Duration) error {
	turn := time.NewTimer(d)
	defer turn.Stop()
	return wait(ctx, f, turn.C)
}

// sizes contains the number of events in a ledger and the number that its index has folded.
type sizes struct{ head, index uint64 }

// summary describes a ledger at one size. It is immutable.
type summary struct {
	sizes
	data, frame []byte // the summary as JSON, and as a server-sent event
}

// summaries caches the latest summary of each ledger, which all clients share.
type summaries struct {
	mu       sync.Mutex // guards the map; held while a summary is computed
	byLedger map[string]*summary
}

// at returns the summary of a ledger at its current sizes.
func (s *summaries) at(ctx context.Context, l *ledger.Ledger, follower *index.Follower) (*summary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted, size := follower.Counts() // read before the head, so that the index is never ahead
	head := l.Head()
	now := sizes{head.Size, size}
	if last := s.byLedger[l.Name()]; last != nil && last.sizes == now {
		return last, nil
	}
	made, err := summarise(ctx, l, head, counted, now)
	if err != nil {
		return nil, err
	}
	if s.byLedger == nil {
		s.byLedger = make(map[string]*summary)
	}
	s.byLedger[l.Name()] = made
	return made, nil
}

func summarise(ctx context.Context, l *ledger.Ledger, head *ledger.Head, counted counters.Counts, at sizes) (*summary, error) {
	live := wire.LiveSummary{TreeSize: at.head, Time: wire.Time(time.UnixMicro(head.TimeMicros).UTC().Format(moment.Layout)), IndexSize: at.index,
		Records: make(map[wire.Kind]uint64), Incomplete: make(map[string]uint64), Drift: make(map[wire.DriftCause]uint64)}
	for series, n := range counted {
		switch {
		case series.Metric == counters.MetricRecords:
			live.Records[wire.Kind(series.Labels[0])] = n
		case series.Metric == counters.MetricIncompleteRecords:
			live.Incomplete[series.Labels[0]] = n
		case series.Metric == counters.MetricDrift && n > 0:
			live.Drift[wire.DriftCause(series.Labels[0])] = n
		case series.Metric == counters.MetricHashChecks && series.Labels[2] == string(record.ResultMismatch):
			live.Mismatches += n
		}
	}
	var err error
	if live.Newest, err = newest(ctx, l, at.head); err != nil {
		return nil, err
	}
	data, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	return &summary{at, data, fmt.Appendf(nil, "id: %d\nevent: head\ndata: %s\n", at.head, data)}, nil
}

// newest describes the last liveEvents events of a ledger at the given tree size, newest first.
func newest(ctx context.Context, l *ledger.Ledger, size uint64) ([]wire.LiveEvent, error) {
	list := []wire.LiveEvent{}
	var decoder event.Decoder
	for entry, err := range l.Reader().Entries(ctx, size-min(size, liveEvents)) {
		if err != nil {
			return nil, fmt.Errorf("reading the newest events: %w", err)
		}
		if entry.Seq >= size {
			break
		}
		e, err := decoder.Decode(entry.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading event %d: %w", entry.Seq, err)
		}
		list = append(list, wire.LiveEvent{Seq: entry.Seq, Kind: wire.Kind(e.Kind), Time: wire.Time(e.TimeText), RunID: string(e.RunID()),
			Mismatches: e.CountChecks(record.ResultMismatch)})
	}
	slices.Reverse(list)
	return list, nil
}

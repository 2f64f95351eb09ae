package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strconv"
	"time"

	"colophon/client/wire"
	"colophon/proofs"
)

// EventsService reads the linear log of events.
type EventsService struct{ ledger *Ledger }

// FromHead makes [EventsService.Follow] skip the existing events and yield only events that are recorded from now
// on.
const FromHead uint64 = math.MaxUint64

// Get reads the event with the given event_hash: GET /events/{event_hash}. It checks that the entry hashes to this
// value.
func (s *EventsService) Get(ctx context.Context, eventHash string) (*wire.EventLine, error) {
	line, err := answer[wire.EventLine](ctx, s.ledger.client, get(s.ledger.path+join("events", eventHash), nil))
	if err != nil {
		return nil, err
	}
	if _, err := checkLine(line); err != nil || line.EventHash != eventHash {
		return nil, errors.Join(fmt.Errorf("%w: the returned event does not match the requested hash %.64s", ErrUnexpectedResponse, eventHash), err)
	}
	return line, nil
}

// All reads the log in order, starting with the event whose seq is from and ending at the head: GET /events.
// After a failed connection, it continues with the next event. It checks that each entry hashes to its
// event_hash and links to the previous entry. It does not check that the events belong to a signed
// checkpoint; colophon audit does.
func (s *EventsService) All(ctx context.Context, from uint64) iter.Seq2[*wire.EventLine, error] {
	return s.read(ctx, &eventReader{service: s, next: from, known: true, page: true})
}

// Follow reads the log, starting with the event whose seq is from, or at the head if from is [FromHead]. It then
// yields each new event as it is recorded. After a failed connection, it reconnects and continues without a gap. It
// checks events in the same way as All. It stops without an error when the ledger is frozen and all events have been
// read. It stops with an error when ctx is done, when the server refuses the token, or when consecutive failures
// have used up the attempts in [RetryPolicy].
func (s *EventsService) Follow(ctx context.Context, from uint64) iter.Seq2[*wire.EventLine, error] {
	return s.read(ctx, &eventReader{service: s, next: from, known: from != FromHead})
}

// eventReader reads consecutive events, reconnecting as needed.
type eventReader struct {
	service *EventsService
	next    uint64 // seq of the next event
	known   bool   // next is set; false until the head's position is known
	tip     *proofs.Hash
	page    bool // read pages instead of a live stream
	alive   bool // the current connection received a keep-alive comment, so the failure count is reset
	yield   func(*wire.EventLine, error) bool
}

// These errors end a connection but do not make the call fail. They are never returned to the
// caller.
var (
	errStopped  = errors.New("the caller has stopped")
	errComplete = errors.New("there are no more events")
)

func (s *EventsService) read(ctx context.Context, r *eventReader) iter.Seq2[*wire.EventLine, error] {
	return func(yield func(*wire.EventLine, error) bool) {
		q := *r // a copy, so that the iterator can be used again
		q.yield = yield
		for failures := 0; ; {
			before, known := q.next, q.known
			q.alive = false
			err := q.connect(ctx)
			switch {
			case errors.Is(err, errStopped) || errors.Is(err, errComplete):
				return
			case err == nil: // go on to the next page
				failures = 0
				continue
			case ctx.Err() != nil:
				yield(nil, ctx.Err())
				return
			case !repeatable(err):
				yield(nil, err)
				return
			}
			if q.alive || known && q.next > before {
				failures = 0
			}
			failures++
			if err := s.ledger.client.pause(ctx, failures, err); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// connect reads one page of events, or one live stream until it ends. It returns errComplete if there are no more
// events.
func (r *eventReader) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := r.service.ledger.client
	q := get(r.service.ledger.path+"/events", make(map[string][]string))
	q.header = map[string]string{"Accept": "text/event-stream"}
	if r.known {
		q.query.Set("from", decimal(r.next))
	}
	switch {
	case r.page:
		q.header["Accept"] = "application/x-ndjson"
		q.query.Set("limit", "1000")
	case r.known && r.next > 0:
		q.header["Last-Event-ID"] = decimal(r.next - 1)
	}
	response, err := client.sendStream(ctx, q, cancel)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := client.lines(response.Body, cancel)
	if r.page {
		return r.readPage(lines, response.Header.Get("Link") != "")
	}
	if !r.known {
		size, err := strconv.ParseUint(response.Header.Get("Colophon-As-Of"), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: the event stream has no valid Colophon-As-Of header", ErrUnexpectedResponse)
		}
		r.next, r.known = size, true
	}
	return r.readStream(lines)
}

func (r *eventReader) readPage(lines *lineScanner, more bool) error {
	first := r.next
	for lines.Scan() {
		if err := r.event(lines.Bytes()); err != nil {
			return err
		}
	}
	switch {
	case lines.Err() != nil:
		return lines.Err()
	case !more:
		return errComplete
	case r.next == first:
		return fmt.Errorf("%w: an empty page links to another page", ErrUnexpectedResponse)
	}
	return nil
}

// readStream reads server-sent events. A stream that ends without a final event is treated as a failed connection.
func (r *eventReader) readStream(lines *lineScanner) error {
	var name string
	var data []byte
	begun := false
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(lines.Bytes()) == 0: // an empty line ends an event
			if err := r.dispatch(name, data); err != nil {
				return err
			}
			name, data, begun = "", nil, true
		case len(field) == 0: // a comment, which the server sends to keep an idle stream alive
			r.alive = r.alive || begun
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			data = append(data, value...)
		}
		if int64(len(data)) > r.service.ledger.client.maxAnswer {
			return fmt.Errorf("%w: a server-sent event is longer than WithMaxResponseBytes allows", ErrUnexpectedResponse)
		}
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return fmt.Errorf("%w: the stream of events ended without a final event", ErrUnreachable)
}

func (r *eventReader) dispatch(name string, data []byte) error {
	var farewell struct {
		Detail string `json:"detail"`
	}
	switch name {
	case "":
		if data == nil {
			return nil // the event had only comments
		}
		return r.event(data)
	case "frozen":
		return errComplete
	case "closing", "refused":
		if err := decode(data, &farewell); err != nil {
			return fmt.Errorf("%w: parsing the server-sent event %s: %w", ErrUnexpectedResponse, name, err)
		}
		e := &Error{Request: "GET " + r.service.ledger.path + "/events"}
		e.Status, e.Detail = http.StatusServiceUnavailable, farewell.Detail
		if name == "refused" {
			e.Status = http.StatusUnauthorized
		}
		e.Title = http.StatusText(e.Status)
		return e
	}
	return nil // ignore unknown event types, which a newer server might send
}

// event decodes and checks one event, and yields it.
func (r *eventReader) event(text []byte) error {
	line := new(wire.EventLine)
	if err := decode(text, line); err != nil {
		return fmt.Errorf("%w: parsing event %d: %w", ErrUnexpectedResponse, r.next, err)
	}
	prev, err := checkLine(line)
	switch {
	case err != nil:
		return err
	case line.Seq != r.next:
		return fmt.Errorf("%w: the server sent event %d instead of event %d", ErrUnexpectedResponse, line.Seq, r.next)
	case r.tip != nil && prev != *r.tip:
		return fmt.Errorf("%w: event %d does not link to the previous event", ErrUnexpectedResponse, line.Seq)
	}
	tip, _ := proofs.ParseHash(line.EventHash) // checkLine has already parsed it
	r.next, r.tip = line.Seq+1, &tip
	if !r.yield(line, nil) {
		return errStopped
	}
	return nil
}

// checkLine checks that a line's entry hashes to its event_hash and contains its event. It returns prev_event_hash.
func checkLine(line *wire.EventLine) (prev proofs.Hash, err error) {
	prev, body, err := proofs.SplitEntry(line.Entry)
	if err != nil {
		return prev, fmt.Errorf("%w: parsing the entry of event %d: %w", ErrUnexpectedResponse, line.Seq, err)
	}
	if hash := proofs.EventHash(prev, body); hex.EncodeToString(hash[:]) != line.EventHash || !bytes.Equal(body, line.Event) {
		return prev, fmt.Errorf("%w: event %d: the entry does not match the event_hash or the event", ErrUnexpectedResponse, line.Seq)
	}
	return prev, nil
}

// lineScanner reads a stream line by line. [WithMaxResponseBytes] limits the length of a line.
type lineScanner struct {
	*bufio.Scanner
	client *Client
}

// lines returns a scanner for the lines of body. If cancel is not nil, it is called when a single read takes
// longer than the client's timeout per attempt.
func (c *Client) lines(body io.Reader, cancel func()) *lineScanner {
	if c.timeout > 0 && cancel != nil {
		body = &stallReader{body, c.timeout, cancel}
	}
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, 0, 4096), int(min(c.maxAnswer, math.MaxInt32)))
	scanner.Split(splitCompleteLines)
	return &lineScanner{scanner, c}
}

// Err returns the error that stopped the scan, or nil if all lines were read.
func (s *lineScanner) Err() error {
	err := s.Scanner.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%w: a line is longer than %d bytes; WithMaxResponseBytes sets the limit", ErrUnexpectedResponse, s.client.maxAnswer)
	}
	return s.client.unreachable(err)
}

// splitCompleteLines is a bufio.SplitFunc like bufio.ScanLines, but returns an error if the last line does not end in
// a newline, because then it is incomplete.
func splitCompleteLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, bytes.TrimSuffix(data[:end], []byte("\r")), nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// stallReader calls giveUp if a single read takes longer than wait.
type stallReader struct {
	body   io.Reader
	wait   time.Duration
	giveUp func()
}

func (r *stallReader) Read(p []byte) (int, error) {
	timer := time.AfterFunc(r.wait, r.giveUp)
	defer timer.Stop()
	return r.body.Read(p)
}

package api

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/proofs"
)

// row is one event as it is read back: where it stands in chain and tree, and
// its body.
type row struct {
	taken
	proved
	Kind          string          `json:"kind"`
	Time          string          `json:"time"`
	EventHash     string          `json:"event_hash"`
	PrevEventHash string          `json:"prev_event_hash"`
	LeafHash      string          `json:"leaf_hash"`
	Hashes        json.RawMessage `json:"hashes"`
	Checks        json.RawMessage `json:"checks"`
	State         string          `json:"state,omitempty"`
	RedactedBy    *uint64         `json:"redacted_by,omitempty"` // as it is now, whatever as_of
	Event         json.RawMessage `json:"event"`
	*derivedFacts
}

// record answers one record: event, checks, state (spec: Requests).
func (s *Server) record(c echo.Context) error {
	l, _, seq, err := s.at(c)
	if err != nil {
		return err
	}
	var derive string
	q, err := s.askedAbout(c, []string{decimal(seq)}, provable, text("derive", &derive))
	if err != nil {
		return err
	}
	defer q.close()
	derived, err := choice("derive", derive, "false", "true")
	if err != nil {
		return err
	}
	if seq >= q.view.Size() {
		return fault(http.StatusNotFound, "there is no event %d among the first %d", seq, q.view.Size())
	}
	entry, err := l.Store().Entry(q.ctx, seq)
	if err != nil {
		return fmt.Errorf("entry %d: %w", seq, err)
	}
	r, err := proofs.NewReceipt(entry)
	if err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	answer := row{proved: proved{Seq: seq}, Kind: r.Kind, Time: r.Time,
		EventHash: hex.EncodeToString(r.EventHash[:]), PrevEventHash: hex.EncodeToString(r.PrevEventHash[:]),
		LeafHash: hex.EncodeToString(r.LeafHash[:]), Hashes: r.Hashes, Checks: r.Checks, Event: entry[proofs.HashSize:]}
	if record.Kind(r.Kind).HasState() {
		if answer.State, err = records.State(q.view, seq); err != nil {
			return err
		}
	}
	if answer.RedactedBy, err = redactedBy(q.ctx, l, seq); err != nil {
		return err
	}
	if derived {
		facts, err := factsOf(q.ctx, q.view, seq, record.Kind(r.Kind))
		if err != nil {
			return fmt.Errorf("deriving the facts of event %d: %w", seq, err)
		}
		answer.derivedFacts = &facts
	}
	if err := answer.proveIn(q); err != nil {
		return err
	}
	return answerOne(q, &answer)
}

// eventContent is what an event says of the content beside the log.
type eventContent struct {
	Record struct {
		Content map[string]struct {
			SHA256 string `json:"sha256"`
		} `json:"content"`
	} `json:"record"`
}

// content answers the exact bytes that a record brought (spec: Content), unless the record is
// redacted: then not even where another record needs them.
func (s *Server) content(c echo.Context) error {
	if err := query(c); err != nil {
		return err
	}
	l, _, seq, err := s.at(c)
	if err != nil {
		return err
	}
	name, err := url.PathUnescape(c.Param("*"))
	if err != nil {
		return invalid("name", "is not a path")
	}
	ctx := c.Request().Context()
	entry, err := l.Store().Entry(ctx, seq)
	if err != nil {
		return fmt.Errorf("entry %d: %w", seq, err)
	}
	var event eventContent
	if err := json.Unmarshal(entry[proofs.HashSize:], &event); err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	named, ok := event.Record.Content[name]
	if !ok {
		return fault(http.StatusNotFound, "event %d has no content of that name; GET /v1/ledgers/%s/records/%d lists them", seq, l.Name(), seq)
	}
	digest, err := proofs.ParseHash(named.SHA256)
	if err != nil {
		return fmt.Errorf("event %d, content %q: %w", seq, name, err)
	}
	if err := buildAnswer(c, 3*s.mostContent()); err != nil { // as the store has it, and a copy
		return err
	}
	body, err := l.Store().Content(ctx, digest)
	// A redaction that comes between is seen, since it erases what it does at once.
	by, redactedErr := redactedBy(ctx, l, seq)
	switch {
	case redactedErr != nil:
		return redactedErr
	case by != nil:
		return redacted(seq, by)
	case err != nil: // damage, if it is not there
		return fmt.Errorf("content %q of event %d: %w", name, seq, err)
	}
	h := c.Response().Header()
	h.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(digest[:])+":")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	// The bytes may be JSON, text, or text with lone surrogates, which is no
	// valid UTF-8: only the reader knows what they are.
	return sendText(c, http.StatusOK, echo.MIMEOctetStream, body)
}

// mostContent bounds the content of one record, in bytes.
func (s *Server) mostContent() int64 { return max(s.config.MaxBody, int64(s.config.MaxLine)) }

// line is one line of the audit_events log (spec: Requests).
type line struct {
	Seq       uint64          `json:"seq"`
	EventHash string          `json:"event_hash"`
	Entry     []byte          `json:"entry"`
	Event     json.RawMessage `json:"event"`
}

func lineOf(seq uint64, entry []byte) (line, error) {
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return line{}, fmt.Errorf("entry %d: %w", seq, err)
	}
	hash := proofs.EventHash(prev, body)
	return line{Seq: seq, EventHash: hex.EncodeToString(hash[:]), Entry: entry, Event: body}, nil
}

// asOf is the header that says at which tree size an answer was taken, where the
// body does not.
const asOf = "Colophon-As-Of"

const ndjson = "application/x-ndjson"

// defaultPage is how many rows a page has when the request does not say.
const defaultPage = 100

// events answers a page of the linear log as NDJSON, in order, or follows it.
func (s *Server) events(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if preferredType(c.Request()) == eventStream {
		return s.followEvents(c, l)
	}
	var from uint64
	rows := uint64(min(defaultPage, s.config.MaxPage))
	if err := query(c, count("from", &from, nil), limit(&rows, s.config.MaxPage)); err != nil {
		return err
	}
	head := l.Head()
	if from > head.Size {
		return invalid("from", "is beyond the head: the ledger has %d events", head.Size)
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, ndjson)
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(asOf, decimal(head.Size))
	if end := min(from+rows, head.Size); end < head.Size {
		h.Set("Link", fmt.Sprintf(`</v1/ledgers/%s/events?from=%d&limit=%d>; rel="next"`, l.Name(), end, rows))
	}
	return sendEvents(c, l, from, min(from+rows, head.Size))
}

// blockMemory bounds what making a block of lines takes, in bytes: a piece of the store's
// entries, and the lines.
const blockMemory = 2 << 20

// sendEvents answers the lines of some events, a block at a time. Nothing of the store is
// open while a block is sent: an iterator would keep the store's memory for as long as
// the client takes to read.
func sendEvents(c echo.Context, l *ledger.Ledger, from, to uint64) error {
	text := newReply()
	defer text.release()
	if err := holdAnswer(c, blockMemory); err != nil {
		return err
	}
	for from < to {
		err := beginHeavy(c, blockMemory, true)
		if err != nil {
			return err
		}
		if from, err = appendEvents(c.Request().Context(), text, l, from, to); err != nil {
			return err
		}
		if err := holdAnswer(c, int64(cap(text.text))); err != nil {
			return err
		}
		if _, err := c.Response().Write(text.text); err != nil {
			return err
		}
		text.text = text.text[:0]
	}
	return nil
}

// appendEvents appends one block of lines. It returns the event after the last.
func appendEvents(ctx context.Context, text *reply, l *ledger.Ledger, from, to uint64) (next uint64, err error) {
	for entry, err := range l.Store().Entries(ctx, from) {
		if err != nil {
			return from, fmt.Errorf("entries from %d: %w", from, err)
		}
		if entry.Seq >= to || len(text.text) >= piece {
			return entry.Seq, nil
		}
		line, err := lineOf(entry.Seq, entry.Bytes)
		if err != nil {
			return from, err
		}
		if err := encodeJSON(text, line); err != nil {
			return from, err
		}
	}
	return to, nil
}

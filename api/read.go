package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"colophon/api/limits"
	"colophon/ledger"
	questions "colophon/ledger/query"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// eventContent is the part of an event that lists its content.
type eventContent struct {
	Record struct {
		Content map[string]struct {
			SHA256 string `json:"sha256"`
		} `json:"content"`
	} `json:"record"`
}

// content answers the exact bytes of a record's content (spec: Content). It answers 410 for a
// redacted record, even if another record keeps the same bytes.
func (s *Server) content(c echo.Context) error {
	if err := query(c); err != nil {
		return err
	}
	l, _, seq, err := s.eventInPath(c)
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
	within := "" // the answer is a member of this content
	if !ok && name == "answer_text" {
		for _, within = range [...]string{"inputs", "reject_inputs"} {
			if named, ok = event.Record.Content[within]; ok {
				break
			}
		}
	}
	if !ok {
		return fault(http.StatusNotFound, "event %d has no content of that name; GET /v1/ledgers/%s/records/%d lists them", seq, l.Name(), seq)
	}
	digest, err := proofs.ParseHash(named.SHA256)
	if err != nil {
		return fmt.Errorf("event %d, content %q: %w", seq, name, err)
	}
	memory := 3 * s.maxContent() // the bytes in the store, and a copy
	if within != "" {
		memory *= 4 // to parse them
	}
	if err := buildAnswer(c, memory); err != nil {
		return err
	}
	body, err := l.Store().Content(ctx, digest)
	// This check follows the read, so that it sees a redaction that erased the bytes in
	// between.
	by, redactedErr := questions.RedactedBy(ctx, l.Store(), seq)
	switch {
	case redactedErr != nil:
		return redactedErr
	case by != nil:
		return redacted(seq, by)
	case err != nil: // missing content means damage here
		return fmt.Errorf("content %q of event %d: %w", name, seq, err)
	}
	if within != "" {
		if body, ok = answerWithin(body); !ok {
			return fault(http.StatusNotFound, "event %d has no answer, neither as content nor in %s", seq, within)
		}
		digest = sha256.Sum256(body)
	}
	h := c.Response().Header()
	h.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(digest[:])+":")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	// The bytes may be JSON, text, or text with lone surrogates, which is not valid UTF-8.
	// Only the client knows their type.
	return sendText(c, http.StatusOK, echo.MIMEOctetStream, body)
}

// answerWithin returns the answer_text in the inputs of a run-DAG, in WTF-8.
func answerWithin(inputs []byte) ([]byte, bool) {
	var document pyjson.Document
	if err := document.Parse(inputs); err != nil {
		return nil, false
	}
	answer := document.Root().Member("answer_text")
	return answer.Text(), answer.Kind() == pyjson.String
}

// maxContent bounds the content of one record, in bytes.
func (s *Server) maxContent() int64 { return max(s.config.MaxBody, int64(s.config.MaxLine)) }

// eventLine is one line of the answer to GET /events (spec: Requests).
type eventLine struct {
	Seq       uint64          `json:"seq"`
	EventHash string          `json:"event_hash"`
	Entry     []byte          `json:"entry"`
	Event     json.RawMessage `json:"event"`
}

func eventLineOf(seq uint64, entry []byte) (eventLine, error) {
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return eventLine{}, fmt.Errorf("entry %d: %w", seq, err)
	}
	hash := proofs.EventHash(prev, body)
	return eventLine{Seq: seq, EventHash: hex.EncodeToString(hash[:]), Entry: entry, Event: body}, nil
}

// asOf is the header with the tree size of an answer whose body does not state it.
const asOf = "Colophon-As-Of"

const ndjson = "application/x-ndjson"

// events answers a page of the log as NDJSON, in order. If the client accepts event streams,
// it follows the log.
func (s *Server) events(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if preferredType(c.Request()) == eventStream {
		return s.followEvents(c, l)
	}
	var from uint64
	rows := min(questions.DefaultPage, s.config.MaxPage)
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
	if end := min(from+uint64(rows), head.Size); end < head.Size {
		h.Set("Link", fmt.Sprintf(`</v1/ledgers/%s/events?from=%d&limit=%d>; rel="next"`, l.Name(), end, rows))
	}
	return sendEvents(c, l, from, min(from+uint64(rows), head.Size))
}

// blockMemory bounds the memory for a block of lines, in bytes: the entries as the store reads
// them, and the lines.
const blockMemory = 2 << 20

// sendEvents answers the lines of the events from up to, but not including, to, one block at a
// time. No iterator is open while a block is sent, because it would keep the store's memory
// for as long as the client takes to read.
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

// appendEvents appends one block of lines. next is the seq after the last line.
func appendEvents(ctx context.Context, text *reply, l *ledger.Ledger, from, to uint64) (next uint64, err error) {
	for entry, err := range l.Store().Entries(ctx, from) {
		if err != nil {
			return from, fmt.Errorf("entries from %d: %w", from, err)
		}
		if entry.Seq >= to || len(text.text) >= limits.MaxWrite {
			return entry.Seq, nil
		}
		line, err := eventLineOf(entry.Seq, entry.Bytes)
		if err != nil {
			return from, err
		}
		if err := encodeJSON(text, line); err != nil {
			return from, err
		}
	}
	return to, nil
}

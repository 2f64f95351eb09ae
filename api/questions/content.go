package questions

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/query"
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

// redactedSince returns the seq of the event that redacted a record, or nil if the record is not
// redacted. The caller must read the record's content before it calls redactedSince, so that the
// call also finds a redaction that happened during the read. readErr is the error from reading the
// content. redactedSince returns readErr only if the record is not redacted.
func redactedSince(ctx context.Context, l *ledger.Ledger, seq uint64, readErr error) (by *uint64, err error) {
	if by, err = query.FindRedaction(ctx, l.Reader().RedactingSeq, seq); by == nil && err == nil {
		err = readErr
	}
	return by, err
}

// ServeContent sends the exact bytes of a record's content (spec: Content). For a redacted record
// it responds with 410, even if another record keeps the same bytes.
func (h *Handlers) ServeContent(c *call.Call) error {
	if err := c.ParseParameters(); err != nil {
		return err
	}
	l, _, seq, err := c.ParseEventPath()
	if err != nil {
		return err
	}
	name, err := url.PathUnescape(c.Param("*"))
	if err != nil {
		return problem.InvalidParameter("name", "is not a valid path")
	}
	ctx := c.Request().Context()
	entry, err := l.Reader().Entry(ctx, seq)
	if err != nil {
		return fmt.Errorf("reading entry %d: %w", seq, err)
	}
	var event eventContent
	if err := json.Unmarshal(entry[proofs.HashSize:], &event); err != nil {
		return fmt.Errorf("parsing event %d: %w", seq, err)
	}
	named, ok := event.Record.Content[name]
	within := "" // name of the content that contains the answer as a JSON member; "" if the answer is separate content
	if !ok && name == "answer_text" {
		for _, within = range [...]string{"inputs", "reject_inputs"} {
			if named, ok = event.Record.Content[within]; ok {
				break
			}
		}
	}
	if !ok {
		return problem.New(http.StatusNotFound, "event %d has no content with the requested name; GET /v1/ledgers/%s/records/%d lists its content", seq, l.Name(), seq)
	}
	digest, err := proofs.ParseHash(named.SHA256)
	if err != nil {
		return fmt.Errorf("event %d: parsing the digest of content %q: %w", seq, name, err)
	}
	memory := 3 * h.MaxContentBytes() // for the bytes in the store, and a copy
	if within != "" {
		memory *= 4 // parsing the bytes takes memory too
	}
	if err := c.BeginAnswer(memory); err != nil {
		return err
	}
	body, err := l.Reader().Content(ctx, digest)
	if err != nil { // missing content means damage, unless it is redacted
		err = fmt.Errorf("reading content %q of event %d: %w", name, seq, err)
	}
	by, err := redactedSince(ctx, l, seq, err)
	switch {
	case err != nil:
		return err
	case by != nil:
		return redacted(seq, by)
	}
	if within != "" {
		if body, ok = answerWithin(body); !ok {
			return problem.New(http.StatusNotFound, "event %d has no answer, either as separate content or in its %s", seq, within)
		}
		digest = sha256.Sum256(body)
	}
	header := c.Response().Header()
	header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(digest[:])+":")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	// The bytes can be JSON, text, or text with lone surrogates, which is not valid UTF-8.
	// Only the client knows their type.
	return c.AnswerText(http.StatusOK, echo.MIMEOctetStream, body)
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

// redacted returns the 410 problem for content that was erased.
func redacted(seq uint64, by *uint64) *problem.Problem {
	p := problem.New(http.StatusGone, "the content of event %d was erased; see event %d for the reason", seq, *by)
	p.RedactedBy = by
	return p
}

// textsOf returns the texts of a set's citations, keyed by the index of the citation.
func textsOf(ctx context.Context, l *ledger.Ledger, seq uint64) (map[int][]byte, error) {
	entry, err := l.Reader().Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d: %w", seq, err)
	}
	var e eventContent
	if err := json.Unmarshal(entry[proofs.HashSize:], &e); err != nil {
		return nil, fmt.Errorf("parsing event %d: %w", seq, err)
	}
	texts := make(map[int][]byte)
	for name, content := range e.Record.Content {
		var i int
		if _, err := fmt.Sscanf(name, "citations/%d/text", &i); err != nil {
			continue
		}
		digest, err := proofs.ParseHash(content.SHA256)
		if err != nil {
			return nil, fmt.Errorf("event %d: parsing the digest of content %q: %w", seq, name, err)
		}
		text, err := l.Reader().Content(ctx, digest)
		if err != nil {
			return nil, fmt.Errorf("reading content %q of event %d: %w", name, seq, err)
		}
		if text == nil {
			text = []byte{} // nil would mean that the text is missing
		}
		texts[i] = text
	}
	return texts, nil
}

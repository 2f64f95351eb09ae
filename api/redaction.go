package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	questions "colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/storage"
)

// redactRecord erases the content of one record (spec: Redactions). For a record that is
// redacted already, it answers the receipt of the event that redacted it.
func (s *Server) redactRecord(c echo.Context) error {
	l, o, err := s.verb(c)
	if err != nil {
		return err
	}
	seq, err := questions.ParseCount("seq", c.Param("seq"))
	if err != nil {
		return err
	}
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	if err := s.beginDecoding(c, body); err != nil {
		release(body)
		return err
	}
	v, err := record.ParseRedaction(seq, body.Bytes())
	release(body)
	endHeavy(c)
	if err != nil {
		return err
	}
	refusal := fault(http.StatusNotFound, "event %d is not a record with content, so nothing can be erased; correct the seq", seq)
	if seq >= l.Head().Size {
		return refusal
	}
	ctx := c.Request().Context()
	switch by, err := questions.RedactedBy(ctx, l.Store(), seq); {
	case err != nil:
		return err
	case by != nil:
		held, err := keyHeld(ctx, l, o.key)
		if err != nil {
			return err
		}
		if !held {
			return s.answer(c, l, &outcome{minimal: o.minimal, ack: ledger.Ack{Outcome: ledger.Replayed, First: *by, Head: l.Head()}})
		}
	}
	withdrawn, err := l.Withdrawal(ctx, seq)
	if err != nil {
		return err
	}
	if len(withdrawn.Digests) == 0 {
		return refusal
	}
	sub, err := l.PrepareVerb(v, o.actor, o.key)
	if err != nil {
		return err
	}
	sub.Redactions = []storage.Redaction{withdrawn}
	return s.submitPrepared(c, l, o, sub)
}

// redacted returns the 410 for content that was erased.
func redacted(seq uint64, by *uint64) *problem {
	p := fault(http.StatusGone, "the content of event %d was erased: event %d says why", seq, *by)
	p.RedactedBy = by
	return p
}

// keyHeld reports whether an event holds a client's idempotency key. It returns false for an
// empty key.
func keyHeld(ctx context.Context, l *ledger.Ledger, key string) (bool, error) {
	if key == "" {
		return false, nil
	}
	_, err := l.Store().Key(ctx, ledger.HeaderKey(key))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

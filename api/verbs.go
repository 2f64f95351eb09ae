package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/paths"
	"colophon/ledger/record"
	"colophon/proofs"
)

// The verbs change the state of something in the ledger (spec: States; Path validation; Sources;
// Redactions). Each request is one event, without deduplication unless it has an Idempotency-Key
// (spec: Idempotency).

// A caller with the scope write alone may not read the ledger. So a verb parses its
// request before it looks anything up, and gives one answer for all that it cannot be
// applied to: a request that shows more leaves an event.

// changeState changes the state of an IPC record or a run-DAG. What kind of event
// a seq has never changes, so that there is nothing to race with.
func (s *Server) changeState(c echo.Context) error {
	l, o, err := s.verb(c)
	if err != nil {
		return err
	}
	seq, err := parseCount("seq", c.Param("seq"))
	if err != nil {
		return err
	}
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	return s.submitVerb(c, l, o, body, func(text []byte) (*record.Verb, error) {
		v, err := record.ParseStateChange(seq, text)
		if err != nil {
			return nil, err
		}
		return v, checkHasState(c.Request().Context(), l, seq)
	})
}

// checkHasState refuses an event without a state and one that is not in the ledger,
// with the same answer.
func checkHasState(ctx context.Context, l *ledger.Ledger, seq uint64) error {
	refusal := fault(http.StatusNotFound, "no IPC record or run-DAG is event %d, and only these have a state; correct the seq", seq)
	if seq >= l.Head().Size {
		return refusal
	}
	entry, err := l.Store().Entry(ctx, seq)
	if err != nil {
		return fmt.Errorf("entry %d: %w", seq, err)
	}
	r, err := proofs.NewReceipt(entry)
	if err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	if !record.Kind(r.Kind).HasState() {
		return refusal
	}
	return nil
}

// registerSource registers a source, once more if it is registered.
func (s *Server) registerSource(c echo.Context) error {
	l, o, err := s.verb(c)
	if err != nil {
		return err
	}
	id, err := sourceID(c)
	if err != nil {
		return err
	}
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	return s.submitVerb(c, l, o, body, func(text []byte) (*record.Verb, error) {
		return record.ParseRegistration(id, text)
	})
}

// validatePath validates the fingerprint that a path has now, or takes that back.
// Should the path change before the event is in the log, the event says of which
// record it speaks.
func (s *Server) validatePath(c echo.Context) error {
	l, o, err := s.verb(c)
	if err != nil {
		return err
	}
	path, unknown := s.currentPath(c, l)
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	return s.submitVerb(c, l, o, body, func(text []byte) (*record.Verb, error) {
		v, err := record.ParseValidation(path, text)
		if err != nil {
			return nil, err
		}
		return v, unknown
	})
}

// revokeSource revokes a source that is registered.
func (s *Server) revokeSource(c echo.Context) error {
	l, o, err := s.verb(c)
	if err != nil {
		return err
	}
	id, err := sourceID(c)
	if err != nil {
		return err
	}
	body, err := s.readOptionalBody(c)
	if err != nil {
		return err
	}
	return s.submitVerb(c, l, o, body, func(text []byte) (*record.Verb, error) {
		v, err := record.ParseRevocation(id, text)
		if err != nil {
			return nil, err
		}
		return v, s.checkRegistered(c, l, id, o.key)
	})
}

// verb is the ledger that the path names and what the request says beside its
// body. Verbs have no query parameters.
func (s *Server) verb(c echo.Context) (*ledger.Ledger, options, error) {
	l, err := s.ledger(c)
	if err != nil {
		return nil, options{}, err
	}
	if err := query(c); err != nil {
		return nil, options{}, err
	}
	o, err := s.options(c, l)
	return l, o, err
}

// submitVerb parses a body, which it releases, records the verb and answers its
// receipt. parse looks things up after it has parsed.
func (s *Server) submitVerb(c echo.Context, l *ledger.Ledger, o options, body *requestBody, parse func([]byte) (*record.Verb, error)) error {
	defer release(body)
	if l.Info().Frozen {
		return ledger.ErrFrozen
	}
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	v, err := parse(body.Bytes())
	if err != nil {
		return err
	}
	endHeavy(c)
	sub, err := l.PrepareVerb(v, o.actor, o.key)
	if err != nil {
		return err
	}
	return s.submitPrepared(c, l, o, sub)
}

// submitPrepared records a verb and answers its receipt.
func (s *Server) submitPrepared(c echo.Context, l *ledger.Ledger, o options, sub ledger.Submission) error {
	begin := time.Now()
	ack, err := l.Submit(sub)
	if err != nil {
		return err
	}
	s.config.Metrics.appended.WithLabelValues(l.Name()).Observe(time.Since(begin).Seconds())
	if ack.Outcome != ledger.Appended {
		return s.answer(c, l, &outcome{minimal: o.minimal, key: o.key, ack: ack})
	}
	return s.appended(c, l, ack, o.minimal)
}

// appended answers the receipt of an event that is no record's.
func (s *Server) appended(c echo.Context, l *ledger.Ledger, ack ledger.Ack, minimal bool) error {
	committed(c)
	receipt, err := proofs.NewReceipt(ack.Entry)
	if err != nil {
		return fmt.Errorf("receipt of event %d: %w", ack.Seq, err)
	}
	if receipt, err = s.prove(c.Request().Context(), l, receipt, ack.Entry, ack.Head, ack.Head.Size, minimal); err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, location(l, receipt))
	return answerReceipt(c, http.StatusCreated, receipt)
}

// readOptionalBody is readBody for a request that may have none: then it has no
// Content-Type either. The caller releases it.
func (s *Server) readOptionalBody(c echo.Context) (*requestBody, error) {
	if c.Request().ContentLength == 0 {
		return new(requestBody), nil
	}
	return s.readBody(c)
}

func sourceID(c echo.Context) (string, error) {
	id, err := element(c, "source_id")
	if err == nil && len(id) > record.MaxSourceID {
		err = invalid("source_id", "is %d bytes long, at most %d are allowed", len(id), record.MaxSourceID)
	}
	return id, err
}

// currentPath is the path that the request names, as the ledger has it now.
func (s *Server) currentPath(c echo.Context, l *ledger.Ledger) (path record.CurrentPath, err error) {
	if path.Project, err = element(c, "project"); err != nil {
		return path, err
	}
	if path.PathID, err = element(c, "path_id"); err != nil {
		return path, err
	}
	view, err := s.viewNow(c, l)
	if err != nil {
		return path, err
	}
	p, known, err := paths.Get(view, path.Project, path.PathID)
	if err = errors.Join(err, view.Close()); err != nil {
		return path, fmt.Errorf("looking up a path: %w", err)
	}
	if !known {
		return path, fault(http.StatusNotFound, "no record of that project has that path_id")
	}
	path.RecordSeq, path.ContentFingerprint = p.Seq, p.ContentFingerprint
	return path, nil
}

// checkRegistered refuses to revoke a source that is not registered, except where
// the key is held already: then nothing is revoked, and the request is replayed or
// refused (spec: Idempotency). The key is looked up last, so that a revocation that the index
// has seen has claimed its key.
func (s *Server) checkRegistered(c echo.Context, l *ledger.Ledger, id, key string) error {
	view, err := s.viewNow(c, l)
	if err != nil {
		return err
	}
	source, _, err := citations.SourceByID(view, id)
	if err = errors.Join(err, view.Close()); err != nil {
		return fmt.Errorf("looking up a source: %w", err)
	}
	if source.Registered {
		return nil
	}
	if held, err := keyHeld(c.Request().Context(), l, key); held || err != nil {
		return err
	}
	return fault(http.StatusNotFound, "no source of that id is registered")
}

// viewNow is the index at the head of the request: it shows whatever was answered
// before.
func (s *Server) viewNow(c echo.Context, l *ledger.Ledger) (*index.View, error) {
	endHeavy(c) // of the body: the index may take its time
	head := l.Head()
	follower, err := s.indexAt(c.Request().Context(), l, head)
	if err != nil {
		return nil, err
	}
	return follower.View(head.Size)
}

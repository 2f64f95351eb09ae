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
	questions "colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
)

// The verbs change the state of something in the ledger (spec: States; Path validation;
// Sources; Redactions). Each request writes one event. A repeated request is detected only by
// its Idempotency-Key (spec: Idempotency).

// A caller with only the scope write may not read the ledger. Therefore a verb parses its
// request before it looks anything up, and answers alike for every target that it does not
// apply to. A request that would reveal more leaves an event.

// changeState changes the state of an IPC record or a run-DAG. The check cannot race with
// writes, because the kind of an event never changes.
func (s *Server) changeState(c echo.Context) error {
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
	return s.submitVerb(c, l, o, body, func(text []byte) (*record.Verb, error) {
		v, err := record.ParseStateChange(seq, text)
		if err != nil {
			return nil, err
		}
		return v, checkHasState(c.Request().Context(), l, seq)
	})
}

// checkHasState returns the same 404 for an event that has no state and for an event that does
// not exist.
func checkHasState(ctx context.Context, l *ledger.Ledger, seq uint64) error {
	refusal := fault(http.StatusNotFound, "event %d is neither an IPC record nor a run-DAG, and only these have a state; correct the seq", seq)
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

// registerSource registers a source, or replaces its registration.
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

// validatePath validates the fingerprint that a path has in a build, or withdraws the
// validation. The event names the record, in case the path changes before the event is in the
// log.
func (s *Server) validatePath(c echo.Context) error {
	l, o, err := s.verb(c)
	if err != nil {
		return err
	}
	project, err := element(c, "project")
	if err != nil {
		return err
	}
	pathID, err := element(c, "path_id")
	if err != nil {
		return err
	}
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	return s.submitVerb(c, l, o, body, func(text []byte) (*record.Verb, error) {
		request, err := record.ParseValidation(text)
		if err != nil {
			return nil, err
		}
		path := record.CurrentPath{Project: project, PathID: pathID}
		return s.validation(c, l, o.key, request, path)
	})
}

// validation returns the change that a request makes to a path. It returns 404 for a path that
// the build lacks, and 409 for one that has another fingerprint there. If an event holds the
// key already, it returns the change all the same: the ledger then replays or refuses the
// request (spec: Idempotency).
func (s *Server) validation(c echo.Context, l *ledger.Ledger, key string, request *record.ValidationRequest, path record.CurrentPath) (*record.Verb, error) {
	view, err := s.viewNow(c, l)
	if err != nil {
		return nil, err
	}
	var build *string
	if request.Build != nil {
		name := string(request.Build)
		build = &name
	}
	p, known, err := paths.Get(view, path.Project, path.PathID, build)
	if err = errors.Join(err, view.Close()); err != nil {
		return nil, fmt.Errorf("looking up a path: %w", err)
	}
	path.RecordSeq, path.Build, path.ContentFingerprint = p.Seq, p.Build, p.ContentFingerprint
	var refusal error
	switch {
	case !known:
		refusal = fault(http.StatusNotFound, "no record of that project and build has that path_id")
	case request.ContentFingerprint != nil && string(request.ContentFingerprint) != p.ContentFingerprint:
		refusal = fault(http.StatusConflict, "the path has another content_fingerprint in that build; read the path again and validate what it has")
	default:
		return request.Of(path), nil
	}
	held, err := keyHeld(c.Request().Context(), l, key)
	if err == nil && !held {
		err = refusal
	}
	return request.Of(path), err
}

// revokeSource revokes a registered source.
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

// verb returns the ledger that the path names and the options of the request. Verbs have no
// query parameters.
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

// submitVerb parses a body, records the verb, and answers its receipt. It releases the body.
// parse may look things up only after it has parsed.
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

// appended answers the receipt of an event that is not a record.
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

// readOptionalBody is readBody for a request whose body is optional. Without a body, no
// Content-Type is needed. The caller releases the body.
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

// checkRegistered returns 404 for a source that is not registered. If an event holds the key
// already, it returns nil: the ledger then replays or refuses the request, and revokes nothing
// (spec: Idempotency). It looks the key up last, so that a revocation that the index has seen
// holds its key.
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

// viewNow returns the index at the current head, so that it covers every acknowledged write.
func (s *Server) viewNow(c echo.Context, l *ledger.Ledger) (*index.View, error) {
	endHeavy(c) // release the slot of the body before the wait for the index
	head := l.Head()
	follower, err := s.waitForIndex(c.Request().Context(), l, head.Size)
	if err != nil {
		return nil, err
	}
	return follower.View(head.Size)
}

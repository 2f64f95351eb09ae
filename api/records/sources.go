package records

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/record"
)

// SourceChecker refuses citation sets that cite unregistered sources, if the ledger is configured to
// do so (spec: Unregistered sources). When it checks the first citation set, it opens a view of the
// index at the log's head. The view includes every registration and revocation acknowledged before
// that. Only one goroutine may use a SourceChecker, and the caller must close it.
type SourceChecker struct {
	shared     *call.ServerState
	ledger     *ledger.Ledger
	view       *index.View // nil until the first citation set is checked
	registered map[string]bool
}

// NewSourceChecker returns a SourceChecker for a ledger. The caller must close it.
func (h *Handlers) NewSourceChecker(l *ledger.Ledger) *SourceChecker {
	return &SourceChecker{shared: h.ServerState, ledger: l}
}

// checkSources calls SourceChecker.Check for a single record, and returns its error.
func (h *Handlers) checkSources(ctx context.Context, l *ledger.Ledger, r *record.Record, sub *ledger.Submission) error {
	check := h.NewSourceChecker(l)
	defer check.Close()
	return check.Check(ctx, r, sub)
}

// Close closes the view of the index.
func (s *SourceChecker) Close() {
	if s.view != nil {
		_ = s.view.Close() // closing a read-only view cannot lose data
	}
}

// Check returns a 422 problem that names the sources of r that are not registered. It applies only
// to a citation set in a ledger that refuses unregistered sources, and waits for the index. If an
// event already has the submission's idempotency key, Check returns nil, because the ledger then
// replays or refuses the record (spec: Idempotency).
func (s *SourceChecker) Check(ctx context.Context, r *record.Record, sub *ledger.Submission) error {
	if r.Kind != record.KindCitationSet || !s.ledger.RejectsUnregisteredSources() {
		return nil
	}
	places, first, err := s.unregistered(ctx, r)
	if err != nil || len(places) == 0 {
		return err
	}
	if sub.KeyDigest != nil {
		held, err := hasKeyDigest(ctx, s.ledger, *sub.KeyDigest)
		if err != nil {
			return fmt.Errorf("looking up an idempotency key: %w", err)
		}
		if held {
			return nil
		}
	}
	p := problem.New(http.StatusUnprocessableEntity, "the ledger refuses citations of unregistered sources, such as %q (affected citations: %d); "+
		"register each source, then send the citation set again", first, len(places))
	p.Errors = places[:min(len(places), maxListed)]
	return p
}

// unregistered returns the citations whose source is not registered, and the ID of the first
// unregistered source.
func (s *SourceChecker) unregistered(ctx context.Context, r *record.Record) (places []problem.ErrorDetail, first string, err error) {
	if err := s.open(ctx); err != nil {
		return nil, "", err
	}
	for pointer, id := range r.CitedSourceIDs() {
		registered, known := s.registered[id]
		if !known {
			source, _, err := citations.SourceByID(s.view, id)
			if err != nil {
				return nil, "", fmt.Errorf("looking up a source: %w", err)
			}
			registered = source.Registered
			s.registered[id] = registered
		}
		if registered {
			continue
		}
		if len(places) == 0 {
			first = id
		}
		places = append(places, problem.ErrorDetail{Pointer: pointer, Detail: fmt.Sprintf("source %q is not registered; register it with PUT /v1/ledgers/%s/sources/%s", id, s.ledger.Name(), url.PathEscape(id))})
	}
	return places, first, nil
}

// open opens the view unless it is already open.
func (s *SourceChecker) open(ctx context.Context) (err error) {
	if s.view != nil {
		return nil
	}
	s.view, err = s.shared.WaitForView(ctx, s.ledger)
	s.registered = make(map[string]bool)
	return err
}

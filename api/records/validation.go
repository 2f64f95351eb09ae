package records

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/client/wire"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/paths"
	"colophon/ledger/record"
)

// ValidatePath validates the fingerprint that a path has in a build, or withdraws the
// validation. The event contains the seq of the validated record, because the path might get a new
// record before the event is in the log.
func (h *Handlers) ValidatePath(c *call.Call) error {
	l, o, err := h.beginAction(c)
	if err != nil {
		return err
	}
	var path record.LatestPathRecord
	if path.Project, err = c.PathValue("project"); err != nil {
		return err
	}
	if path.PathID, err = c.PathValue("path_id"); err != nil {
		return err
	}
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	return h.submitAction(c, l, o, body, func(text []byte) (*record.Action, error) {
		request, err := record.ParseValidationRequest(text)
		if err != nil {
			return nil, err
		}
		c.EndHeavyWork() // release the slot taken for the body before waiting for the index
		return h.prepareValidationAction(c.Request().Context(), l, o.IdempotencyKey, request, path)
	})
}

// PrepareValidation returns the submission for a validation that is a line of a batch.
func (h *Handlers) PrepareValidation(ctx context.Context, l *ledger.Ledger, line *record.PathValidationLine, o Options) (ledger.Submission, error) {
	if l.Info().Frozen { // check before looking up the path, like submitAction
		return ledger.Submission{}, ledger.ErrFrozen
	}
	v, err := h.prepareValidationAction(ctx, l, o.IdempotencyKey, &line.ValidationRequest, record.LatestPathRecord{Project: line.Project, PathID: line.PathID})
	if err != nil {
		return ledger.Submission{}, err
	}
	return l.PrepareAction(v, o.Actor, o.IdempotencyKey)
}

// prepareValidationAction returns the action that validates a path. It returns a 404 problem if the
// build does not have the path, and a 409 problem if the path has a different fingerprint in that
// build. If an event already has the idempotency key, it returns the action without a problem,
// because the ledger then replays or refuses the request (spec: Idempotency).
func (h *Handlers) prepareValidationAction(ctx context.Context, l *ledger.Ledger, key string, request *record.ValidationRequest, path record.LatestPathRecord) (*record.Action, error) {
	view, err := h.WaitForView(ctx, l)
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
		refusal = problem.New(http.StatusNotFound, "the project has no record with the given path_id (or none in the given build, if the request names a build)")
	case request.ContentFingerprint != nil && string(request.ContentFingerprint) != p.ContentFingerprint:
		refusal = problem.New(http.StatusConflict, "the content_fingerprint in the request differs from the path's; read the path again and validate its current fingerprint")
	default:
		return request.ActionFor(path), nil
	}
	held, err := HasIdempotencyKey(ctx, l, key)
	if err == nil && !held {
		err = refusal
	}
	return request.ActionFor(path), err
}

// ChangeValidations validates the selected paths of a build, or withdraws their validations. By
// default, it only reports what it would do. Each path gets a separate event.
func (h *Handlers) ChangeValidations(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	project, err := c.PathValue("project")
	if err != nil {
		return err
	}
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	if err := c.BeginDecoding(body); err != nil {
		body.Release()
		return err
	}
	request, err := parseValidations(body.Bytes())
	body.Release()
	c.EndHeavyWork()
	c.EndWrite()
	if err != nil {
		return err
	}
	if l.Info().Frozen {
		return ledger.ErrFrozen
	}
	answer, err := h.planValidations(c, l, project, request)
	if err != nil || request.DryRun {
		if err == nil {
			err = c.AnswerJSON(http.StatusOK, answer)
		}
		return err
	}
	c.BeginWrite()
	if err := h.validate(c, l, project, request, answer); err != nil {
		return err
	}
	return c.AnswerJSON(http.StatusOK, answer)
}

// planValidations selects the paths that a request applies to at the request's tree size. It
// refuses paths whose fingerprint has changed since that size.
func (h *Handlers) planValidations(c *call.Call, l *ledger.Ledger, project string, request *validationsRequest) (answer *wire.PathValidationsResult, err error) {
	head := l.Head().Size
	size := head
	if request.AsOf != nil {
		if size = *request.AsOf; size == 0 || size > head {
			return nil, problem.AtPointer(http.StatusUnprocessableEntity, "/as_of", fmt.Sprintf("must be from 1 to %d, the size of the ledger", head))
		}
	}
	ctx := c.Request().Context()
	follower, err := h.WaitForIndex(ctx, l, head)
	if err != nil {
		return nil, err
	}
	if err := c.BeginRead(); err != nil {
		return nil, err
	}
	then, err := follower.View(size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, then.Close()) }()
	now, err := follower.View(head)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	build := string(request.Build)
	answer = &wire.PathValidationsResult{AsOf: size, DryRun: request.DryRun, Build: build, Validated: request.Validated,
		Paths: []wire.ValidatedPath{}, Refused: []wire.RefusedPath{}}
	selected, err := selectPaths(c, then, project, build, request, answer)
	if err != nil {
		return nil, err
	}
	for _, p := range selected {
		current, _, err := paths.Get(now, project, p.PathID, &build)
		switch {
		case err != nil:
			return nil, err
		case current.ContentFingerprint != p.ContentFingerprint:
			answer.Refused = append(answer.Refused, wire.RefusedPath{PathID: p.PathID, Reason: wire.ReasonPathChanged})
		case current.Validated == request.Validated:
			answer.Unchanged++
		default:
			answer.Paths = append(answer.Paths, wire.ValidatedPath{PathID: p.PathID, RecordSeq: current.Seq, ContentFingerprint: textOrNil(p.ContentFingerprint)})
		}
	}
	return answer, nil
}

// selectPaths looks up the paths of a request in a view. It adds listed paths that are unknown or
// have a different fingerprint to answer.Refused.
func selectPaths(c *call.Call, v *index.View, project, build string, request *validationsRequest, answer *wire.PathValidationsResult) (selected []paths.Path, err error) {
	for _, listed := range request.Paths {
		p, known, err := paths.Get(v, project, listed.PathID, &build)
		switch {
		case err != nil:
			return nil, err
		case !known:
			answer.Refused = append(answer.Refused, wire.RefusedPath{PathID: listed.PathID, Reason: wire.ReasonPathUnknown})
		case listed.ContentFingerprint != "" && listed.ContentFingerprint != p.ContentFingerprint:
			answer.Refused = append(answer.Refused, wire.RefusedPath{PathID: listed.PathID, Reason: wire.ReasonPathChanged})
		default:
			selected = append(selected, p)
		}
	}
	if len(request.Paths) > 0 {
		return selected, nil
	}
	filter, page := paths.Filter{Build: &build, Category: paths.Category(request.Status)}, index.PageRequest{Limit: maxValidations}
	for {
		if err := c.YieldTurn(); err != nil {
			return nil, err
		}
		rows, next, err := paths.List(c.Request().Context(), v, project, filter, page)
		if errors.Is(err, paths.ErrNotFound) {
			return nil, problem.New(http.StatusNotFound, "the project has no such build; GET /paths/{project}/builds lists its builds")
		}
		if err != nil {
			return nil, err
		}
		for i := range rows {
			selected = append(selected, rows[i].Path)
		}
		if len(selected) > maxValidations {
			return nil, problem.New(http.StatusUnprocessableEntity, "more than %d paths of the build are selected; send several requests that each list some of the paths in \"paths\"", maxValidations)
		}
		if next == nil {
			return selected, nil
		}
		page.After = next
	}
}

// validate writes one event for each path of a plan, in order. Several events can share a commit.
// If it fails partway, the error says how many events were written.
func (h *Handlers) validate(c *call.Call, l *ledger.Ledger, project string, request *validationsRequest, plan *wire.PathValidationsResult) error {
	changes := func(yield func(*record.Action) bool) {
		for _, p := range plan.Paths {
			current := record.LatestPathRecord{Project: project, PathID: p.PathID, Build: &plan.Build, RecordSeq: p.RecordSeq}
			if p.ContentFingerprint != nil {
				current.ContentFingerprint = *p.ContentFingerprint
			}
			if !yield(request.ActionFor(current)) {
				return
			}
		}
	}
	written := 0
	failed := l.AppendActions(c.Request().Context(), changes, c.Actor(), func(ack ledger.Ack) error {
		plan.Paths[written].Seq = ack.Seq // acks arrive in the order of plan.Paths; a partial plan is not returned
		written++
		return nil
	})
	if written > 0 {
		c.MarkCommitted()
	}
	if failed == nil || written == 0 {
		return failed
	}
	p, internal := problem.FromError(failed)
	if internal {
		return failed
	}
	return problem.New(p.Status, "%d of the %d validations were recorded before the request failed; repeat the request to record the rest", written, len(plan.Paths))
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

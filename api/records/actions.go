package records

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/receipts"
	"colophon/ledger"
	"colophon/ledger/index/citations"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/proofs"
)

// Actions are requests that change the state of a record, a path, or a source, redact content, or
// add a note (spec: States; Path validation; Sources; Redactions; Notes). Each request writes one
// event. Only the Idempotency-Key identifies a repeated request (spec: Idempotency).

// A caller that has only the write scope is not allowed to read the ledger. Therefore an action
// parses its request before it looks anything up, and gives the same answer for every target to
// which it does not apply. Learning more requires a request that leaves an event in the log.

// ChangeState changes the state of an IPC record or a run-DAG.
func (h *Handlers) ChangeState(c *call.Call) error {
	return h.aboutRecord(c, record.KindRecordStateChanged, record.ParseStateChange)
}

// AddNote adds a note to a record.
func (h *Handlers) AddNote(c *call.Call) error {
	return h.aboutRecord(c, record.KindNote, record.ParseNote)
}

// aboutRecord records an action on the record whose seq is in the path.
func (h *Handlers) aboutRecord(c *call.Call, kind record.Kind, parse func(seq uint64, body []byte) (*record.Action, error)) error {
	l, o, err := h.beginAction(c)
	if err != nil {
		return err
	}
	seq, err := query.ParseUint("seq", c.Param("seq"))
	if err != nil {
		return err
	}
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	return h.submitAction(c, l, o, body, func(text []byte) (*record.Action, error) {
		v, err := parse(seq, text)
		if err != nil {
			return nil, err
		}
		return v, checkTarget(c.Request().Context(), l, kind, seq)
	})
}

// checkTarget checks that a state change or a note can apply to an event. It returns the same
// 404 for an event of another kind and for an event that does not exist. The check cannot race
// with writes, because the kind of an event never changes.
func checkTarget(ctx context.Context, l *ledger.Ledger, kind record.Kind, seq uint64) error {
	fits, reason := record.Kind.HasState, "neither an IPC record nor a run-DAG; only those have a state"
	if kind == record.KindNote {
		fits, reason = record.Kind.IsRecord, "not a record; only records have notes"
	}
	refusal := problem.New(http.StatusNotFound, "event %d is %s; correct the seq", seq, reason)
	if seq >= l.Head().Size {
		return refusal
	}
	entry, err := l.Reader().Entry(ctx, seq)
	if err != nil {
		return fmt.Errorf("reading entry %d: %w", seq, err)
	}
	r, err := proofs.NewReceipt(entry)
	if err != nil {
		return fmt.Errorf("parsing event %d: %w", seq, err)
	}
	if !fits(record.Kind(r.Kind)) {
		return refusal
	}
	return nil
}

// PrepareAction returns the submission for an action that is a line of a batch.
func PrepareAction(ctx context.Context, l *ledger.Ledger, v *record.Action, o Options) (ledger.Submission, error) {
	if l.Info().Frozen { // check before looking up the target, like submitAction
		return ledger.Submission{}, ledger.ErrFrozen
	}
	if err := checkTarget(ctx, l, v.Kind, v.RecordSeq); err != nil {
		return ledger.Submission{}, err
	}
	return l.PrepareAction(v, o.Actor, o.IdempotencyKey)
}

// RegisterSource registers a source, or replaces its registration.
func (h *Handlers) RegisterSource(c *call.Call) error {
	return h.aboutSource(c, c.ReadBody, func(_ *ledger.Ledger, _ Options, id string, text []byte) (*record.Action, error) {
		return record.ParseSourceRegistration(id, text)
	})
}

// RevokeSource revokes a registered source.
func (h *Handlers) RevokeSource(c *call.Call) error {
	return h.aboutSource(c, c.ReadOptionalBody, func(l *ledger.Ledger, o Options, id string, text []byte) (*record.Action, error) {
		v, err := record.ParseSourceRevocation(id, text)
		if err != nil {
			return nil, err
		}
		return v, h.checkRegistered(c, l, id, o.IdempotencyKey)
	})
}

// aboutSource records an action on the source whose ID is in the path.
func (h *Handlers) aboutSource(c *call.Call, read func() (*call.Body, error), parse func(l *ledger.Ledger, o Options, id string, text []byte) (*record.Action, error)) error {
	l, o, err := h.beginAction(c)
	if err != nil {
		return err
	}
	id, err := sourceID(c)
	if err != nil {
		return err
	}
	body, err := read()
	if err != nil {
		return err
	}
	return h.submitAction(c, l, o, body, func(text []byte) (*record.Action, error) { return parse(l, o, id, text) })
}

// beginAction returns the ledger named in the path and the options of the request. It refuses query
// parameters, because actions have none.
func (h *Handlers) beginAction(c *call.Call) (*ledger.Ledger, Options, error) {
	l, err := c.Ledger()
	if err != nil {
		return nil, Options{}, err
	}
	if err := c.ParseParameters(); err != nil {
		return nil, Options{}, err
	}
	o, err := h.ReadOptions(c, l)
	return l, o, err
}

// submitAction parses a body, records the action, and sends its receipt. It releases the body.
// parse must not look anything up before it has parsed the body.
func (h *Handlers) submitAction(c *call.Call, l *ledger.Ledger, o Options, body *call.Body, parse func([]byte) (*record.Action, error)) error {
	defer body.Release()
	if l.Info().Frozen {
		return ledger.ErrFrozen
	}
	if err := c.BeginDecoding(body); err != nil {
		return err
	}
	v, err := parse(body.Bytes())
	if err != nil {
		return err
	}
	c.EndHeavyWork()
	sub, err := l.PrepareAction(v, o.Actor, o.IdempotencyKey)
	if err != nil {
		return err
	}
	return h.submitPrepared(c, l, o, sub)
}

// submitPrepared records an action and sends its receipt.
func (h *Handlers) submitPrepared(c *call.Call, l *ledger.Ledger, o Options, sub ledger.Submission) error {
	begin := time.Now()
	ack, err := l.Submit(sub)
	if err != nil {
		return err
	}
	h.AppendDuration.WithLabelValues(l.Name()).Observe(time.Since(begin).Seconds())
	if ack.Outcome != ledger.OutcomeAppended {
		return h.answer(c, l, &Outcome{MinimizeReceipt: o.MinimizeReceipt, IdempotencyKey: o.IdempotencyKey, Ack: ack})
	}
	return receipts.SendAck(c, l, ack, o.MinimizeReceipt)
}

func sourceID(c *call.Call) (string, error) {
	id, err := c.PathValue("source_id")
	if err == nil && len(id) > fields.MaxSourceIDBytes {
		err = problem.InvalidParameter("source_id", "is %d bytes long, but at most %d are allowed", len(id), fields.MaxSourceIDBytes)
	}
	return id, err
}

// checkRegistered returns a 404 problem if the source is not registered. If an event already has
// the idempotency key, it returns nil, because the ledger then replays or refuses the request, and
// revokes nothing (spec: Idempotency). It looks up the key last. Otherwise, it could miss the key
// of a revocation that the index has just seen.
func (h *Handlers) checkRegistered(c *call.Call, l *ledger.Ledger, id, key string) error {
	c.EndHeavyWork() // release the slot taken for the body before waiting for the index
	view, err := h.WaitForView(c.Request().Context(), l)
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
	if held, err := HasIdempotencyKey(c.Request().Context(), l, key); held || err != nil {
		return err
	}
	return problem.New(http.StatusNotFound, "no source with the given id is registered")
}

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/receipts"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// redaction is the answer to a request that erases the content of many records. It describes
// what was done or, in a dry run, what would be done.
type redaction struct {
	AsOf            uint64           `json:"as_of"`
	DryRun          bool             `json:"dry_run"`
	Records         uint64           `json:"records"`
	AlreadyRedacted uint64           `json:"already_redacted"`
	WithoutContent  uint64           `json:"without_content"`
	Erased          contentPieces    `json:"erased"`
	Kept            contentPieces    `json:"kept"`
	NeededBy        uint64           `json:"needed_by"`
	FirstSeqs       []uint64         `json:"first_seqs"`
	FirstRedacted   []redactedRecord `json:"first_already_redacted"`
	// Events counts the events that were written. Receipts has the receipts of the first ones.
	Events   *uint64           `json:"events,omitempty"`
	Receipts []json.RawMessage `json:"receipts,omitempty"`
}

type contentPieces struct {
	Pieces uint64 `json:"pieces"`
	Bytes  uint64 `json:"bytes"`
}

// redactedRecord is a record and the event that redacted it.
type redactedRecord struct {
	Seq        uint64 `json:"seq"`
	RedactedBy uint64 `json:"redacted_by"`
}

func redactionOf(asOf uint64, dryRun bool, e *ledger.Erasure) *redaction {
	r := &redaction{
		AsOf: asOf, DryRun: dryRun,
		Records: e.Records, AlreadyRedacted: e.AlreadyRedacted, WithoutContent: e.WithoutContent,
		Erased: contentPieces{e.Erased.Count, e.Erased.Bytes}, Kept: contentPieces{e.Kept.Count, e.Kept.Bytes}, NeededBy: e.NeededBy,
		FirstSeqs: append([]uint64{}, e.First...), FirstRedacted: make([]redactedRecord, len(e.FirstAlready)),
	}
	for i, a := range e.FirstAlready {
		r.FirstRedacted[i] = redactedRecord{a.Seq, a.By}
	}
	return r
}

// RedactRecords erases the content of all records that a request selects. By default it only
// answers what that would do. A ledger handles one such request at a time, because each may
// read a large part of the ledger.
func (h *Handlers) RedactRecords(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.Query(); err != nil {
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
	request, err := record.ParseRedactionRequest(body.Bytes())
	body.Release()
	c.EndHeavy()
	if err != nil {
		return err
	}
	if l.Info().Frozen {
		return ledger.ErrFrozen
	}
	ctx := c.Request().Context()
	done, err := h.Limits.Redactions.Take(ctx, l.Name())
	if err != nil {
		return err
	}
	defer done()
	wanted, asOf, err := h.selectRecords(ctx, l, request)
	if err != nil {
		return err
	}
	plan, err := l.PlanRedaction(ctx, wanted)
	if err != nil {
		return err
	}
	answer := redactionOf(asOf, request.DryRun, plan)
	if !request.DryRun {
		if err := h.redact(c, l, wanted, request.Reason, answer); err != nil {
			return err
		}
		c.MarkCommitted()
	}
	return c.AnswerJSON(http.StatusOK, answer)
}

// redact carries out the plan and adds the result to the answer. If it fails half-way, the
// error says how many records are redacted.
func (h *Handlers) redact(c *call.Call, l *ledger.Ledger, wanted *ledger.SeqSet, reason string, answer *redaction) error {
	ctx, minimal := c.Request().Context(), c.Preference() == "minimal"
	var events, records uint64
	err := l.Redact(ctx, wanted, reason, c.Actor(), func(ack ledger.Ack, n int) error {
		events++
		records += uint64(n)
		if events > ledger.MaxListed {
			return nil
		}
		receipt, err := proofs.NewReceipt(ack.Entry)
		if err != nil {
			return fmt.Errorf("receipt of event %d: %w", ack.Seq, err)
		}
		if receipt, err = receipts.Prove(ctx, l, receipt, ack.Entry, ack.Head, ack.Head.Size, minimal); err != nil {
			return err
		}
		answer.Receipts = append(answer.Receipts, receipt.AppendJSON(nil))
		return nil
	})
	answer.Records, answer.Events = records, &events
	if err == nil || events == 0 {
		return err
	}
	p, internal := problem.Of(err)
	if internal {
		return err
	}
	why, _, _ := strings.Cut(p.Detail, ";") // the rest describes a request that had no effect at all
	return problem.New(p.Status, "%d of the records are redacted, the others are not: %s; repeat the request to redact those", records, why)
}

// selectRecords returns the records that a request selects, and the tree size at which it
// selected them.
func (h *Handlers) selectRecords(ctx context.Context, l *ledger.Ledger, request *record.RedactionRequest) (*ledger.SeqSet, uint64, error) {
	head := l.Head()
	size := head.Size
	if request.AsOf != nil {
		if size = *request.AsOf; size == 0 {
			return nil, 0, problem.At(http.StatusUnprocessableEntity, "/as_of", "must be at least 1: every ledger has at least one event")
		}
		if size > head.Size {
			return nil, 0, problem.At(http.StatusUnprocessableEntity, "/as_of", fmt.Sprintf("is beyond the head: the ledger has %d events", head.Size))
		}
	}
	set := new(ledger.SeqSet)
	for i, seq := range request.Seqs {
		if seq >= size {
			return nil, 0, problem.At(http.StatusUnprocessableEntity, fmt.Sprintf("/seqs/%d", i),
				fmt.Sprintf("there is no event %d among the first %d", seq, size))
		}
		set.Add(seq)
	}
	if len(request.Seqs) > 0 {
		return set, size, nil
	}
	f, err := bodyFilter(request.Filter)
	if err != nil {
		return nil, 0, err
	}
	follower, err := h.WaitForIndex(ctx, l, head.Size)
	if err != nil {
		return nil, 0, err
	}
	view, err := follower.View(size)
	if err != nil {
		return nil, 0, err
	}
	return set, size, errors.Join(collectMatches(ctx, view, f, set), view.Close())
}

// findPage is the number of records in one index lookup.
const findPage = 1000

// collectMatches adds all records that a filter selects to set.
func collectMatches(ctx context.Context, view *index.View, f *query.RecordFilter, set *ledger.SeqSet) error {
	for page := (index.Page{Limit: findPage}); ; {
		found, next, err := f.List(ctx, view, page)
		if err != nil {
			return err
		}
		for i := range found {
			set.Add(found[i].Seq)
		}
		if next == nil {
			return nil
		}
		page.After = next
	}
}

// bodyFilter reads the filter in the body of a request. Its members are the parameters of GET
// /records that select records.
func bodyFilter(members map[string]string) (*query.RecordFilter, error) {
	f, unknown, err := query.ParseFilter(members)
	var invalid *query.Error
	switch {
	case errors.As(err, &invalid):
		status := http.StatusUnprocessableEntity
		if unknown {
			status = http.StatusBadRequest
		}
		return nil, problem.At(status, string(pyjson.AppendPointer([]byte("/filter"), []byte(invalid.Name))), invalid.Detail)
	case f.All():
		return nil, problem.At(http.StatusUnprocessableEntity, "/filter", "selects all records of the ledger; name the records to redact")
	}
	return &f, err
}

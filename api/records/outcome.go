package records

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/receipts"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/proofs"
)

// Outcome is the result of writing one record.
type Outcome struct {
	Record                *record.Record // nil for an action
	Refused               bool           // the ledger refused the record because of a mismatch
	MinimizeReceipt       bool           // omit proofs from the receipt, unless the record is refused
	IncludeDerivedMembers bool           // add to the receipt the members that the server derives from earlier events
	IdempotencyKey        string         // value of the Idempotency-Key header; if it is empty, the run_id of the record is the key
	Ack                   ledger.Ack     // what the ledger returned for the submission
}

// Receipt returns the receipt for the outcome of a write (spec: Receipts).
func (out *Outcome) Receipt(ctx context.Context, l *ledger.Ledger) (*proofs.Receipt, error) {
	ack := out.Ack
	if ack.Outcome == ledger.OutcomeReplayed {
		entry, err := ack.Entry, error(nil)
		if entry == nil { // the record was already redacted, and KeyHolderSeq is the seq of the redaction
			entry, err = l.Reader().Entry(ctx, ack.KeyHolderSeq)
		}
		if err != nil {
			return nil, fmt.Errorf("reading entry %d: %w", ack.KeyHolderSeq, err)
		}
		r, err := receipts.ForEntry(ctx, l, ack.KeyHolderSeq, entry, ack.Head, ack.Head.Size, out.MinimizeReceipt)
		if err == nil {
			r.Replayed = true
		}
		return r, err
	}
	refused := out.Refused || ack.Outcome == ledger.OutcomeConflicted
	if refused || out.Record == nil {
		r, err := proofs.NewReceipt(ack.Entry)
		if err != nil {
			return nil, fmt.Errorf("making the receipt of event %d: %w", ack.Seq, err)
		}
		minimal := out.MinimizeReceipt && !refused // the receipt of a refusal proves that the check ran (spec: Refusals)
		return receipts.AddProof(ctx, l, r, ack.Entry, ack.Head, ack.Head.Size, minimal)
	}
	r := &proofs.Receipt{
		Ledger:        l.Name(),
		Seq:           ack.Seq,
		Kind:          string(out.Record.Kind),
		Time:          ack.Time.Format(moment.Layout),
		EventHash:     ack.EventHash,
		PrevEventHash: proofs.Hash(ack.Entry[:proofs.HashSize]),
		LeafHash:      ack.LeafHash,
		Hashes:        out.Record.HashesJSON(),
		Checks:        out.Record.ChecksJSON(),
	}
	r.Shape, r.FailureStage = out.Record.ShapeAndFailureStage()
	r.MissingMembers = record.MissingPartsJSON(out.Record)
	return receipts.AddProof(ctx, l, r, ack.Entry, ack.Head, ack.Head.Size, out.MinimizeReceipt)
}

// answer sends the response to a single write.
func (h *Handlers) answer(c *call.Call, l *ledger.Ledger, out *Outcome) error {
	c.MarkCommitted()
	receipt, err := out.Receipt(c.Request().Context(), l)
	if err != nil {
		return err
	}
	if p := out.Problem(); p != nil {
		p.Receipt = receipt.AppendJSON(nil)
		return p
	}
	status := out.Status()
	if status == http.StatusOK {
		c.Response().Header().Set("Idempotent-Replayed", "true")
	}
	c.Response().Header().Set(echo.HeaderLocation, receipts.EventLocation(l, receipt))
	answer := call.NewBuffer()
	defer answer.Release()
	answer.Text = h.AppendReceipt(c.Request().Context(), answer.Text, l, out, receipt)
	return answer.Send(c, status, echo.MIMEApplicationJSON)
}

// Status returns the HTTP status for an accepted record.
func (out *Outcome) Status() int {
	if out.Ack.Outcome == ledger.OutcomeReplayed {
		return http.StatusOK
	}
	return http.StatusCreated
}

// maxListed is the maximum number of failed checks that a problem lists. The problem's detail has
// the total.
const maxListed = 100

// Problem returns the problem for a refused record, or nil if the record was accepted.
func (out *Outcome) Problem() *problem.Problem {
	switch {
	case out.Ack.Outcome == ledger.OutcomeReplayed:
		return nil
	case out.Ack.Outcome == ledger.OutcomeConflicted:
		return out.conflict()
	case out.Refused:
		p := problem.New(http.StatusUnprocessableEntity, "refused: claimed hashes differ from the recomputed hashes (mismatches: %d)", len(out.Record.Mismatches()))
		mismatches := out.Record.Mismatches()
		for _, m := range mismatches[:min(len(mismatches), maxListed)] {
			p.Errors = append(p.Errors, problem.ErrorDetail{Pointer: out.Record.ClaimPointer(m), Field: m.Field,
				Detail:  "the claimed hash differs from the recomputed one",
				Claimed: string(m.Claimed), Computed: string(m.Computed)})
		}
		return p
	}
	return nil
}

// conflict returns the 409 problem for an idempotency key or a run_id that another record
// already uses.
func (out *Outcome) conflict() *problem.Problem {
	p := problem.New(http.StatusConflict, "the idempotency key is already used by a different record, event %d", out.Ack.KeyHolderSeq)
	if out.IdempotencyKey == "" {
		p = problem.New(http.StatusConflict, "the run_id is already used by a different record of this kind, event %d; "+
			"give each run its own run_id, or send the same record again", out.Ack.KeyHolderSeq)
	}
	p.FirstSeq = &out.Ack.KeyHolderSeq
	return p
}

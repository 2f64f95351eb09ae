package records

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"colophon/ledger"
	"colophon/ledger/query/facts"
	"colophon/ledger/record"
	"colophon/proofs"
)

// deriveTimeout limits how long the response to a write waits for derived members. The record is
// already durable, so its receipt must be sent even if the index is waiting for disk space.
const deriveTimeout = 10 * time.Second

// AppendReceipt appends a receipt as JSON. It adds the derived members if the request asks for them
// and the index has them within deriveTimeout.
func (h *Handlers) AppendReceipt(ctx context.Context, dst []byte, l *ledger.Ledger, out *Outcome, receipt *proofs.Receipt) []byte {
	dst = receipt.AppendJSON(dst)
	if !out.IncludeDerivedMembers || out.Record == nil {
		return dst
	}
	facts, err := h.derive(ctx, l, receipt.Seq, out.Record.Kind)
	if err != nil {
		h.Logger.Warn("sending a receipt without the derived members", "ledger", l.Name(), "seq", receipt.Seq, "error", err)
		return dst
	}
	if len(facts) > len("{}") {
		dst = append(append(dst[:len(dst)-1], ','), facts[1:]...)
	}
	return dst
}

// derive returns the derived members of a record as a JSON object.
func (h *Handlers) derive(ctx context.Context, l *ledger.Ledger, seq uint64, kind record.Kind) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, deriveTimeout)
	defer cancel()
	follower := h.Index.Follower(l.Name())
	if err := follower.WaitForSize(ctx, seq+1); err != nil {
		return nil, err
	}
	view, err := follower.View(seq + 1)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	found, err := facts.DeriveMembers(ctx, view, seq, kind)
	if err != nil {
		return nil, fmt.Errorf("deriving the members of event %d: %w", seq, err)
	}
	return json.Marshal(found)
}

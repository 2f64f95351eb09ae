// Package receipts creates the receipts of events, with their proofs, and sends them.
package receipts

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/ledger"
	"colophon/proofs"
)

// ForEvent returns the receipt of the event at seq, with a proof that the event is in the tree of
// the given size. If minimal is true, the receipt has no proof.
func ForEvent(ctx context.Context, l *ledger.Ledger, seq uint64, head *ledger.Head, size uint64, minimal bool) (*proofs.Receipt, error) {
	entry, err := l.Reader().Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d: %w", seq, err)
	}
	return ForEntry(ctx, l, seq, entry, head, size, minimal)
}

// ForEntry is like ForEvent, for an entry that the caller has already read.
func ForEntry(ctx context.Context, l *ledger.Ledger, seq uint64, entry []byte, head *ledger.Head, size uint64, minimal bool) (*proofs.Receipt, error) {
	r, err := proofs.NewReceipt(entry)
	if err != nil {
		return nil, fmt.Errorf("making the receipt of event %d: %w", seq, err)
	}
	return AddProof(ctx, l, r, entry, head, size, minimal)
}

// AddProof adds to r the inclusion proof and the checkpoint for the tree of the given size, unless
// minimal is true.
func AddProof(ctx context.Context, l *ledger.Ledger, r *proofs.Receipt, entry []byte, head *ledger.Head, size uint64, minimal bool) (*proofs.Receipt, error) {
	if minimal {
		return r, nil
	}
	path, err := l.Prover(ctx, head).InclusionProof(r.Seq, size)
	if err != nil {
		return nil, fmt.Errorf("making the inclusion proof of event %d: %w", r.Seq, err)
	}
	checkpoint, err := l.Checkpoint(ctx, head, size)
	if err != nil {
		return nil, err
	}
	r.Proof = &proofs.ReceiptProof{
		Event:      entry[proofs.HashSize:],
		Inclusion:  proofs.InclusionProof{LeafIndex: r.Seq, TreeSize: size, Hashes: path},
		Checkpoint: checkpoint,
	}
	return r, nil
}

// Send sends r as JSON.
func Send(c *call.Call, status int, r *proofs.Receipt) error {
	answer := call.NewBuffer()
	defer answer.Release()
	answer.Text = r.AppendJSON(answer.Text)
	return answer.Send(c, status, echo.MIMEApplicationJSON)
}

// SendAck sends the receipt of an event that is not a record.
func SendAck(c *call.Call, l *ledger.Ledger, ack ledger.Ack, minimal bool) error {
	c.MarkCommitted()
	receipt, err := proofs.NewReceipt(ack.Entry)
	if err != nil {
		return fmt.Errorf("making the receipt of event %d: %w", ack.Seq, err)
	}
	if receipt, err = AddProof(c.Request().Context(), l, receipt, ack.Entry, ack.Head, ack.Head.Size, minimal); err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, EventLocation(l, receipt))
	return Send(c, http.StatusCreated, receipt)
}

// EventLocation returns the URL path of a receipt's event.
func EventLocation(l *ledger.Ledger, r *proofs.Receipt) string {
	return "/v1/ledgers/" + l.Name() + "/records/" + strconv.FormatUint(r.Seq, 10)
}

package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// checkReceipts fetches the receipts of some entries, and consistency proofs from earlier
// sizes, and verifies them like any holder.
func (a *Auditor) checkReceipts(ctx context.Context, log *PublishedLog) error {
	size := log.Published.Size
	random := rand.New(rand.NewPCG(a.Seed, 0)) // #nosec G404 -- a sample that can be drawn again
	for range min(uint64(a.Receipts), size) {
		more, err := a.checkReceipt(ctx, log, random.Uint64N(size))
		if err == nil && more {
			more, err = a.CheckConsistency(ctx, log, 1+random.Uint64N(size))
		}
		if err != nil {
			return err
		}
		a.Report.Receipts++
		if !more {
			return nil
		}
	}
	return nil
}

// checkReceipt checks the receipt of an entry; false if the audit should stop.
func (a *Auditor) checkReceipt(ctx context.Context, log *PublishedLog, seq uint64) (more bool, err error) {
	query := fmt.Sprintf("/records/%d/receipt?tree_size=%d", seq, log.Published.Size)
	return a.checkProof(ctx, query, &seq, func(body []byte) error { return a.verifyReceipt(log, seq, body) })
}

// CheckConsistency checks the proof that the walked tree extends an earlier one; false if the
// audit should stop.
func (a *Auditor) CheckConsistency(ctx context.Context, log *PublishedLog, first uint64) (more bool, err error) {
	query := fmt.Sprintf("/proofs/consistency?first=%d&second=%d", first, log.Published.Size)
	return a.checkProof(ctx, query, nil, func(body []byte) error { return a.verifyConsistency(ctx, log, first, body) })
}

// checkProof fetches and verifies a receipt or a proof; false if the audit should stop. seq is
// its entry, or nil. The error says why it could not be verified.
func (a *Auditor) checkProof(ctx context.Context, query string, seq *uint64, verify func(body []byte) error) (more bool, err error) {
	answer, err := a.Fetch.Get(ctx, query, maxReceipt)
	switch {
	case errors.Is(err, ErrTooMuch) || errors.Is(err, errAnswer):
		return a.Report.Found(Finding{Kind: KindReceipt, Query: query, Message: err.Error()}), nil
	case err != nil:
		return false, err
	case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
		return false, cli.Exitf(cli.ExitFailed, "receipts cannot be audited: %s", answer.why)
	case answer.Status != http.StatusOK:
		return a.Report.Found(Finding{Kind: KindReceipt, Query: query, Message: answer.why}), nil
	}
	err = verify(answer.Body)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil || errors.Is(err, audit.ErrUnavailable):
		return false, err
	}
	return a.Report.Found(Finding{Kind: KindReceipt, Seq: seq, Query: query, Message: err.Error()}), nil
}

// verifyReceipt verifies the receipt of an entry against the walked tree.
func (a *Auditor) verifyReceipt(log *PublishedLog, seq uint64, body []byte) error {
	r, err := proofs.ParseReceipt(body)
	if err != nil {
		return err
	}
	if err := r.Verify(a.Keys...); err != nil {
		return err
	}
	if r.Seq != seq || r.Ledger != a.Ledger {
		return fmt.Errorf("it is of event %d of ledger %.100q", r.Seq, r.Ledger)
	}
	return a.sameTree(r.Proof.Checkpoint, log.Published.Checkpoint)
}

// sameTree checks that a checkpoint signs the walked tree. If the log was walked further
// meanwhile, the report has a later checkpoint.
func (a *Auditor) sameTree(note, walked []byte) error {
	checkpoint, err := proofs.OpenCheckpoint(note, a.Keys...)
	if err != nil {
		return err
	}
	log, err := proofs.OpenCheckpoint(walked, a.Keys...)
	if err != nil {
		return err
	}
	if checkpoint.Size != log.Size || checkpoint.Root != log.Root {
		return fmt.Errorf("its checkpoint is of size %d with root %x, the log's of size %d with root %x", checkpoint.Size, checkpoint.Root, log.Size, log.Root)
	}
	return nil
}

// verifyConsistency verifies a consistency proof against the log's tiles.
func (a *Auditor) verifyConsistency(ctx context.Context, log *PublishedLog, first uint64, body []byte) error {
	var answer struct {
		AsOf       uint64   `json:"as_of"`
		Hashes     []string `json:"hashes"`
		Checkpoint *string  `json:"checkpoint"` // present if the second size is the head
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&answer); err != nil {
		return err
	}
	if strict.More() || answer.AsOf != log.Published.Size || answer.Hashes == nil {
		return fmt.Errorf("it is of size %d, not %d, or no such proof", answer.AsOf, log.Published.Size)
	}
	if answer.Checkpoint != nil {
		if err := a.sameTree([]byte(*answer.Checkpoint), log.Published.Checkpoint); err != nil {
			return err
		}
	}
	path := make([]proofs.Hash, len(answer.Hashes))
	for i, text := range answer.Hashes {
		var err error
		if path[i], err = proofs.ParseHash(text); err != nil {
			return err
		}
	}
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	tree, err := proofs.OpenTree(log.Published.Size, read, nil)
	if err != nil {
		return err
	}
	root, err := proofs.NewProver(tree.Snapshot(), nil, read).Root(first)
	if err != nil {
		return err
	}
	return proofs.VerifyConsistency(first, log.Published.Size, root, tree.Root(), path)
}

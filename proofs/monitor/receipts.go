package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// maxReceipt is the maximum length of a receipt or a proof, in bytes.
const maxReceipt = 1 << 20

// checkReceipts fetches the receipts of randomly chosen entries and consistency proofs from
// randomly chosen earlier sizes, and verifies them as the holder of a receipt would.
func (a *Auditor) checkReceipts(ctx context.Context, log *fetch.Log) error {
	size := log.Size()
	random := rand.New(rand.NewPCG(a.options.Seed, 0)) // #nosec G404 -- the seed must reproduce the sample
	for range min(uint64(a.options.NumReceipts), size) {
		more, err := a.checkReceipt(ctx, log, random.Uint64N(size))
		if err == nil && more {
			more, err = a.checkConsistency(ctx, log, 1+random.Uint64N(size))
		}
		if err != nil {
			return err
		}
		a.report.Receipts++
		if !more {
			return nil
		}
	}
	return nil
}

// checkReceipt checks the receipt of an entry. more is false if the audit should stop.
func (a *Auditor) checkReceipt(ctx context.Context, log *fetch.Log, seq uint64) (more bool, err error) {
	query := fmt.Sprintf("/records/%d/receipt?tree_size=%d", seq, log.Size())
	return a.checkProof(ctx, query, &seq, func(body []byte) error { return a.verifyReceipt(log, seq, body) })
}

// checkConsistency checks the consistency proof from the tree of size first to the walked tree.
// more is false if the audit should stop.
func (a *Auditor) checkConsistency(ctx context.Context, log *fetch.Log, first uint64) (more bool, err error) {
	query := fmt.Sprintf("/proofs/consistency?first=%d&second=%d", first, log.Size())
	return a.checkProof(ctx, query, nil, func(body []byte) error { return a.verifyConsistency(ctx, log, first, body) })
}

// checkProof fetches a receipt or a consistency proof and calls verify with the response body. seq
// identifies the entry of a receipt, and is nil for a consistency proof. more is false if the audit
// should stop. The error says why the check could not be made.
func (a *Auditor) checkProof(ctx context.Context, query string, seq *uint64, verify func(body []byte) error) (more bool, err error) {
	answer, err := a.client.Get(ctx, query, maxReceipt)
	switch {
	case errors.Is(err, fetch.ErrTooLong) || errors.Is(err, fetch.ErrMalformed):
		return a.report.AddFinding(Finding{Kind: DamageKindReceipt, Query: query, Message: err.Error()}), nil
	case err != nil:
		return false, err
	case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
		return false, &UncheckableError{Subject: "receipts", Reason: answer.Problem}
	case answer.Status != http.StatusOK:
		return a.report.AddFinding(Finding{Kind: DamageKindReceipt, Query: query, Message: answer.Problem}), nil
	}
	err = verify(answer.Body)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil || errors.Is(err, audit.ErrUnavailable):
		return false, err
	}
	return a.report.AddFinding(Finding{Kind: DamageKindReceipt, Seq: seq, Query: query, Message: err.Error()}), nil
}

// verifyReceipt verifies the receipt of an entry against the walked tree.
func (a *Auditor) verifyReceipt(log *fetch.Log, seq uint64, body []byte) error {
	r, err := proofs.ParseReceipt(body)
	if err != nil {
		return err
	}
	if err := r.Verify(a.keys...); err != nil {
		return err
	}
	if r.Seq != seq || r.Ledger != a.options.Ledger {
		return fmt.Errorf("the server returned the wrong receipt, for event %d of ledger %.100q", r.Seq, r.Ledger)
	}
	return a.sameTree(r.Proof.Checkpoint, log.Checkpoint())
}

// sameTree checks that note is a checkpoint of the walked tree. walked is the signed note of that
// tree. The report's checkpoint cannot be used instead, because it can be newer.
func (a *Auditor) sameTree(note, walked []byte) error {
	checkpoint, err := proofs.OpenCheckpoint(note, a.keys...)
	if err != nil {
		return err
	}
	log, err := proofs.OpenCheckpoint(walked, a.keys...)
	if err != nil {
		return err
	}
	if checkpoint.Size != log.Size || checkpoint.Root != log.Root {
		return fmt.Errorf("the checkpoint has size %d and root %x, but the log has size %d and root %x", checkpoint.Size, checkpoint.Root, log.Size, log.Root)
	}
	return nil
}

// verifyConsistency verifies a consistency proof against the log's tiles.
func (a *Auditor) verifyConsistency(ctx context.Context, log *fetch.Log, first uint64, body []byte) error {
	var answer struct {
		AsOf       uint64   `json:"as_of"`
		Hashes     []string `json:"hashes"`
		Checkpoint *string  `json:"checkpoint"` // present if the requested second size equals the head's size
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&answer); err != nil {
		return err
	}
	if strict.More() || answer.Hashes == nil {
		return errors.New("the response is not a consistency proof")
	}
	if answer.AsOf != log.Size() {
		return fmt.Errorf("the consistency proof is for size %d, not %d", answer.AsOf, log.Size())
	}
	if answer.Checkpoint != nil {
		if err := a.sameTree([]byte(*answer.Checkpoint), log.Checkpoint()); err != nil {
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
	tree, err := proofs.OpenTree(log.Size(), read, nil)
	if err != nil {
		return err
	}
	root, err := proofs.NewProver(tree.Snapshot(), nil, read).Root(first)
	if err != nil {
		return err
	}
	return proofs.VerifyConsistency(first, log.Size(), root, tree.Root(), path)
}

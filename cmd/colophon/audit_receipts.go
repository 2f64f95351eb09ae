package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"colophon/proofs"
	"colophon/proofs/audit"
)

// checkReceipts fetches the receipts of some entries, and proofs of consistency with
// sizes before, and verifies them as anybody does who has them.
func (a *auditor) checkReceipts(ctx context.Context, log *publishedLog) error {
	size := log.head.Size
	random := rand.New(rand.NewPCG(a.seed, 0)) // #nosec G404 -- a sample that can be drawn again
	for range min(uint64(a.receipts), size) {
		if err := a.checkReceipt(ctx, log, random.Uint64N(size)); err != nil {
			return err
		}
		if err := a.checkConsistency(ctx, log, 1+random.Uint64N(size)); err != nil {
			return err
		}
		a.report.Receipts++
	}
	return nil
}

// checkReceipt verifies the receipt of an entry. Its proof is of the tree that was
// walked.
func (a *auditor) checkReceipt(ctx context.Context, log *publishedLog, seq uint64) error {
	query := fmt.Sprintf("/records/%d/receipt?tree_size=%d", seq, log.head.Size)
	answer, err := a.fetch.get(ctx, query, maxAuditJSON)
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK {
		return a.noReceipt(query, answer)
	}
	r, err := proofs.ParseReceipt(answer.body)
	if err == nil {
		err = r.Verify(a.keys...)
	}
	if err == nil && (r.Seq != seq || r.Ledger != a.ledger) {
		err = fmt.Errorf("it is of event %d of ledger %.100q", r.Seq, r.Ledger)
	}
	if err == nil {
		err = a.sameTree(r.Proof.Checkpoint, log.head.Checkpoint)
	}
	if err != nil {
		a.report.found(auditFinding{Kind: kindReceipt, Seq: &seq, Query: query, Message: err.Error()})
	}
	return nil
}

// noReceipt is a receipt or proof that is not answered.
func (a *auditor) noReceipt(query string, answer fetched) error {
	if answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden {
		return exitf(exitFailed, "receipts cannot be audited: %s", answer.why)
	}
	a.report.found(auditFinding{Kind: kindReceipt, Query: query, Message: answer.why})
	return nil
}

// sameTree checks that a checkpoint is of the tree that was walked, as that was signed. Of
// a log that was walked on since, the report has a later one.
func (a *auditor) sameTree(note, walked []byte) error {
	checkpoint, err := proofs.OpenCheckpoint(note, a.keys...)
	if err != nil {
		return err
	}
	log, err := proofs.OpenCheckpoint(walked, a.keys...)
	if err != nil {
		return err
	}
	if checkpoint.Size != log.Size || checkpoint.Root != log.Root {
		return fmt.Errorf("its checkpoint is of size %d with root %x, the log's of size %d with root %x", checkpoint.Size, checkpoint.Root, log.Size, log.Root)
	}
	return nil
}

// checkConsistency verifies the proof that the tree of a size is the beginning of the
// one that was walked.
func (a *auditor) checkConsistency(ctx context.Context, log *publishedLog, first uint64) error {
	query := fmt.Sprintf("/proofs/consistency?first=%d&second=%d", first, log.head.Size)
	answer, err := a.fetch.get(ctx, query, maxAuditJSON)
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK {
		return a.noReceipt(query, answer)
	}
	err = a.verifyConsistency(ctx, log, first, answer.body)
	if ctx.Err() != nil || errors.Is(err, audit.ErrUnavailable) {
		return err
	}
	if err != nil {
		a.report.found(auditFinding{Kind: kindReceipt, Query: query, Message: err.Error()})
	}
	return nil
}

func (a *auditor) verifyConsistency(ctx context.Context, log *publishedLog, first uint64, body []byte) error {
	var answer struct {
		Hashes []string `json:"hashes"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	path := make([]proofs.Hash, len(answer.Hashes))
	for i, text := range answer.Hashes {
		var err error
		if path[i], err = proofs.ParseHash(text); err != nil {
			return err
		}
	}
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	tree, err := proofs.OpenTree(log.head.Size, read, nil)
	if err != nil {
		return err
	}
	root, err := proofs.NewProver(tree.Snapshot(), nil, read).Root(first)
	if err != nil {
		return err
	}
	return proofs.VerifyConsistency(first, log.head.Size, root, tree.Root(), path)
}

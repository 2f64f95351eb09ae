package main

import (
	"context"
	"errors"
	"fmt"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// reference is the copy of the log that answers are compared with. It grows with the log,
// since answers may be as of a later size.
type reference struct {
	walk   *wholeWalk
	dir    string
	signer *proofs.Signer
	oracle *oracle
	size   uint64
}

// openReference shows the first size entries of the copy that a walk has made.
func openReference(ctx context.Context, w *wholeWalk, dir string, size uint64) (*reference, error) {
	signer, err := proofs.GenerateKey().Signer(replicaOrigin)
	if err != nil {
		return nil, err
	}
	r := &reference{walk: w, dir: dir, signer: signer}
	return r, r.show(ctx, size)
}

// show opens the oracle at a size; its index goes on with what it has.
func (r *reference) show(ctx context.Context, size uint64) (err error) {
	if err := r.close(); err != nil {
		return err
	}
	if err := r.walk.replica.seal(size, r.walk.past); err != nil {
		return err
	}
	if r.oracle, err = newOracle(ctx, r.walk.Console, r.walk.replica, r.dir, r.signer); err != nil {
		return err
	}
	r.size = size
	return nil
}

// reach has the copy show a size, or all that is signed by now for 0. The error is a
// *badAnswer where the log is smaller.
func (r *reference) reach(ctx context.Context, size uint64) error {
	if size == 0 || size > r.walk.replica.written {
		if err := r.walk.catchUp(ctx); err != nil {
			return err
		}
	}
	written := r.walk.replica.written
	if size > written {
		return &badAnswer{"", "the answer is of a size that the log does not have", "at most " + cli.Decimal(written), cli.Decimal(size)}
	}
	if size == 0 {
		size = written
	}
	if size <= r.size {
		return nil
	}
	return r.show(ctx, size)
}

func (r *reference) close() error {
	if r.oracle == nil {
		return nil
	}
	err := r.oracle.close()
	r.oracle = nil
	return err
}

// comparer compares the server's answers with the copy.
func (r *reference) comparer() (*comparer, error) {
	a := r.walk.auditor
	verifier := r.signer.Verifier()
	ofCopy := func() (*fetcher, error) { return newFetcher(r.oracle.source, a.fetch.path, a.timeout, a.parallel) }
	copied, err := ofCopy()
	if err != nil {
		return nil, err
	}
	c := newComparer(a.fetch, copied, r.size)
	c.ledger, c.keys, c.copyKey, c.entry, c.redactions = a.ledger, a.keys, verifier, r.walk.replica.read, r.walk.redacts
	c.rootAt = func(size uint64) (proofs.Hash, error) {
		tree, err := proofs.OpenTree(size, r.walk.replica.readTile, nil)
		if err != nil {
			return proofs.Hash{}, err
		}
		return tree.Root(), nil
	}
	checkpoint, err := proofs.OpenCheckpoint(r.walk.log.head.Checkpoint, a.keys...)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint: %w", err)
	}
	c.origin = checkpoint.Origin
	c.reach = func(ctx context.Context, size uint64) error {
		before := r.size
		err := r.reach(ctx, size)
		if r.size != before {
			copied, copyErr := ofCopy()
			if copyErr != nil {
				return errors.Join(err, copyErr)
			}
			c.copied, c.size = copied, r.size
		}
		c.keys = a.keys
		return err
	}
	return c, nil
}

// catchUp walks the log on to what is signed by now.
func (w *wholeWalk) catchUp(ctx context.Context) error {
	if err := w.followKeys(ctx); err != nil {
		return err
	}
	log, err := openPublishedLog(ctx, w.fetch, w.keys, w.parallel)
	if err != nil {
		return err
	}
	now, err := w.walk(ctx, log, audit.Extension{From: w.at, Past: w.past, Seen: w.seen(), Each: w.copy})
	if err == nil {
		w.at, w.log = now, log
	}
	if err == nil && w.past == w.memory.past {
		err = w.remember(log, now)
	}
	return err
}

package monitor

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
	walk   *WholeWalk
	dir    string
	signer *proofs.Signer
	oracle *Oracle
	size   uint64
}

// OpenReference shows the first size entries of the copy that a walk has made.
func OpenReference(ctx context.Context, w *WholeWalk, dir string, size uint64) (*reference, error) {
	signer, err := proofs.GenerateKey().Signer(ReplicaOrigin)
	if err != nil {
		return nil, err
	}
	r := &reference{walk: w, dir: dir, signer: signer}
	return r, r.show(ctx, size)
}

// show opens the oracle at a size; its index goes on with what it has.
func (r *reference) show(ctx context.Context, size uint64) (err error) {
	if err := r.Close(); err != nil {
		return err
	}
	if err := r.walk.Replica.Seal(size, r.walk.Past); err != nil {
		return err
	}
	if r.oracle, err = NewOracle(ctx, r.walk.Console, r.walk.Replica, r.dir, r.signer); err != nil {
		return err
	}
	r.size = size
	return nil
}

// reach has the copy show a size, or all that is signed by now for 0. The error is a
// *badAnswer where the log is smaller.
func (r *reference) reach(ctx context.Context, size uint64) error {
	if size == 0 || size > r.walk.Replica.Written {
		if err := r.walk.catchUp(ctx); err != nil {
			return err
		}
	}
	written := r.walk.Replica.Written
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

func (r *reference) Close() error {
	if r.oracle == nil {
		return nil
	}
	err := r.oracle.Close()
	r.oracle = nil
	return err
}

// Comparer compares the server's answers with the copy.
func (r *reference) Comparer() (*Comparer, error) {
	a := r.walk.Auditor
	verifier := r.signer.Verifier()
	ofCopy := func() (*Fetcher, error) { return NewFetcher(r.oracle.Source, a.Fetch.path, a.Timeout, a.Parallel) }
	copied, err := ofCopy()
	if err != nil {
		return nil, err
	}
	c := NewComparer(a.Fetch, copied, r.size)
	c.ledger, c.keys, c.copyKey, c.entry, c.redactions = a.Ledger, a.Keys, verifier, r.walk.Replica.read, r.walk.Redacts
	c.rootAt = func(size uint64) (proofs.Hash, error) {
		tree, err := proofs.OpenTree(size, r.walk.Replica.readTile, nil)
		if err != nil {
			return proofs.Hash{}, err
		}
		return tree.Root(), nil
	}
	checkpoint, err := proofs.OpenCheckpoint(r.walk.Log.Published.Checkpoint, a.Keys...)
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
			c.copied, c.Size = copied, r.size
		}
		c.keys = a.Keys
		return err
	}
	return c, nil
}

// catchUp walks the log on to what is signed by now.
func (w *WholeWalk) catchUp(ctx context.Context) error {
	if err := w.followKeys(ctx); err != nil {
		return err
	}
	log, err := OpenPublishedLog(ctx, w.Fetch, w.Keys, w.Parallel)
	if err != nil {
		return err
	}
	now, err := w.walk(ctx, log, audit.Extension{From: w.At, Past: w.Past, Seen: w.Seen(), Each: w.copy})
	if err == nil {
		w.At, w.Log = now, log
	}
	if err == nil && w.Past == w.Memory.Past {
		err = w.Remember(log, now)
	}
	return err
}

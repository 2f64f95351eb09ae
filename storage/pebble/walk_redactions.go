package pebble

import (
	"context"
	"errors"
	"fmt"
	"iter"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// Redactions implements storage.Reader.
func (l *ledger) Redactions(ctx context.Context) iter.Seq2[storage.Redaction, error] {
	end := l.head.Load().Size
	return func(yield func(storage.Redaction, error) bool) {
		var from uint64
		for most, more := firstPiece, true; more; most = min(growth*most, mostPiece) {
			piece, err := l.redactions(ctx, from, most)
			if err != nil {
				yield(storage.Redaction{}, fmt.Errorf("reading redactions of ledger %q: %w", l.name(), err))
				return
			}
			for _, r := range piece.rows {
				if r.RedactingSeq >= end && r.RedactingSeq < piece.size {
					continue // stored by a commit after the walk began
				}
				if !yield(r, nil) {
					return
				}
			}
			if more = len(piece.rows) == most; more {
				last := piece.rows[most-1].Seq
				from, more = last+1, last+1 != 0
			}
		}
	}
}

// redactionPiece contains consecutive redactions and the size of the head, all read from the same
// snapshot.
type redactionPiece struct {
	rows []storage.Redaction
	size uint64
}

// redactions returns the redactions of the records at or after from, in the order of the records.
// most limits their number. It reads the redactions and the head from one snapshot. Otherwise, the
// redactions of a commit that is visible but not durable yet could be mistaken for forged ones.
func (l *ledger) redactions(ctx context.Context, from uint64, most int) (p redactionPiece, err error) {
	if err := l.db.usable(ctx); err != nil {
		return redactionPiece{}, err
	}
	snapshot := l.db.engine.NewSnapshot()
	defer func() { err = damaged(errors.Join(err, snapshot.Close())) }()
	if p.size, err = sizeAt(snapshot, l.number); err != nil {
		return redactionPiece{}, fmt.Errorf("reading the head in the snapshot of the database: %w", err)
	}
	start, end := keys.RedactionRange(l.number, from)
	rows, err := snapshot.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return redactionPiece{}, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for ok := rows.First(); ok && len(p.rows) < most; ok = rows.Next() {
		seq, ok := keys.RedactionSeq(rows.Key())
		if !ok {
			return redactionPiece{}, fmt.Errorf("%w: a redaction has an invalid key of %d bytes", storage.ErrDamaged, len(rows.Key()))
		}
		value, err := rows.ValueAndErr()
		if err != nil {
			return redactionPiece{}, fmt.Errorf("reading the redaction of record %d: %w", seq, err)
		}
		by, err := keys.DecodeSeq(value)
		if err != nil {
			return redactionPiece{}, fmt.Errorf("%w: decoding the redaction of record %d: %w", storage.ErrDamaged, seq, err)
		}
		p.rows = append(p.rows, storage.Redaction{Seq: seq, RedactingSeq: by})
	}
	return p, rows.Error()
}

// sizeAt returns the size of a ledger as of a snapshot.
func sizeAt(snapshot *engine.Snapshot, number keys.LedgerNumber) (size uint64, err error) {
	stored, closer, err := snapshot.Get(keys.HeadKey(number))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	head, err := keys.DecodeHead(stored)
	return head.Size, err
}

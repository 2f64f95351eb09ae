package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// An open iterator prevents the deletion of all files that existed when it was opened, including
// files with erased content. Therefore walks read piece by piece, and close the iterator before a
// caller processes the results. The first piece is small, for callers that need only a few items.
const (
	firstPiece = 32       // number of items in the first piece
	firstBytes = 64 << 10 // total length of entries, in bytes, at which the first piece ends
	growth     = 4        // factor by which each piece is larger than the previous one
	mostPiece  = 4096     // maximum number of items in a piece
	pieceBytes = 1 << 20  // total length of entries, in bytes, at which any piece ends
)

// Entries implements storage.Reader.
func (l *ledger) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	end := l.head.Load().Size
	return func(yield func(storage.Entry, error) bool) {
		var p piece
		var err error
		most, bytes := firstPiece, firstBytes
		for next := from; next < end && err == nil; most, bytes = min(growth*most, mostPiece), min(growth*bytes, pieceBytes) {
			err = l.readPiece(ctx, &p, next, end, most, bytes)
			start := 0
			for _, stop := range p.stops {
				if err := ctx.Err(); err != nil {
					yield(storage.Entry{}, fmt.Errorf("reading entries of ledger %q: %w", l.name(), err))
					return
				}
				if !yield(storage.Entry{Seq: next, Bytes: p.bytes[start:stop:stop]}, nil) {
					return
				}
				start = stop
				next++
			}
		}
		if err != nil {
			yield(storage.Entry{}, fmt.Errorf("reading entries of ledger %q: %w", l.name(), err))
		}
	}
}

// piece is a run of consecutive entries whose bytes are in one buffer.
type piece struct {
	bytes []byte
	stops []int // offset in bytes at which each entry ends
}

// readPiece fills p with the entries for which from ≤ seq < end, replacing its previous contents.
// most limits the number of entries. readPiece also stops once the total length of the entries
// reaches the given number of bytes. It reads at least one entry unless it returns an error. If it
// returns an error, p contains the entries before the one that failed.
func (l *ledger) readPiece(ctx context.Context, p *piece, from, end uint64, most, bytes int) (err error) {
	p.bytes, p.stops = p.bytes[:0], p.stops[:0]
	if err := l.db.usable(ctx); err != nil {
		return err
	}
	entries, err := l.db.engine.NewIter(&engine.IterOptions{
		LowerBound: keys.AppendEntryKey(nil, l.number, from),
		UpperBound: keys.AppendEntryKey(nil, l.number, end),
	})
	if err != nil {
		return err
	}
	defer func() { err = damaged(errors.Join(err, entries.Close())) }()
	next := from
	for ok := entries.First(); ok && len(p.stops) < most && len(p.bytes) < bytes; ok = entries.Next() {
		if seq, ok := keys.EntrySeq(entries.Key()); !ok || seq != next {
			return storage.ExplainMissingEntry(ctx, l, next, end)
		}
		entry, err := entries.ValueAndErr()
		if err != nil {
			return fmt.Errorf("reading entry %d: %w", next, err)
		}
		p.bytes = append(p.bytes, entry...)
		p.stops = append(p.stops, len(p.bytes))
		next++
	}
	if err := entries.Error(); err != nil {
		return fmt.Errorf("reading entry %d: %w", next, err)
	}
	if next < end && len(p.stops) < most && len(p.bytes) < bytes {
		return storage.ExplainMissingEntry(ctx, l, next, end)
	}
	return nil
}

// References implements storage.Reader.
func (l *ledger) References(ctx context.Context, digest storage.Hash) iter.Seq2[uint64, error] {
	end := l.head.Load().Size
	return func(yield func(uint64, error) bool) {
		var from uint64
		for most, more := firstPiece, true; more; most = min(growth*most, mostPiece) {
			seqs, err := l.references(ctx, digest, from, end, most)
			if err != nil {
				yield(0, fmt.Errorf("reading the references to content %x of ledger %q: %w", digest, l.name(), err))
				return
			}
			for _, seq := range seqs {
				if !yield(seq, nil) {
					return
				}
				from = seq + 1
			}
			more = len(seqs) == most
		}
	}
}

// references returns, in ascending order, the seqs of the records with from ≤ seq < end that need
// the content. most limits the number of seqs.
func (l *ledger) references(
	ctx context.Context, digest storage.Hash, from, end uint64, most int,
) (seqs []uint64, err error) {
	if err := l.db.usable(ctx); err != nil {
		return nil, err
	}
	location, stop := keys.DigestRange(l.number, digest)
	holding, err := l.db.engine.NewIter(&engine.IterOptions{LowerBound: location, UpperBound: stop})
	if err != nil {
		return nil, err
	}
	defer func() { err = damaged(errors.Join(err, holding.Close())) }()
	if !holding.First() || !bytes.Equal(holding.Key(), location) {
		return nil, holding.Error() // the ledger does not have the content
	}
	value, err := holding.ValueAndErr()
	if err != nil {
		return nil, err
	}
	first, err := keys.DecodeLocationValue(value)
	if err != nil {
		return nil, err
	}
	if !first.Redacted && first.Seq >= from && first.Seq < end {
		seqs = append(seqs, first.Seq)
	}
	more := holding.Next()
	if from > 0 {
		more = holding.SeekGE(keys.AppendReferenceKey(nil, l.number, digest, from))
	}
	for ; more && len(seqs) < most; more = holding.Next() {
		seq, ok := keys.ReferenceSeq(holding.Key())
		if !ok {
			return nil, fmt.Errorf("%w: a reference to the content has an invalid key of %d bytes", storage.ErrDamaged, len(holding.Key()))
		}
		if seq >= end {
			break
		}
		seqs = append(seqs, seq)
	}
	return seqs, holding.Error()
}

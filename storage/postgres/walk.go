package postgres

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage"
)

// Walks read page by page, so that they use no connection while the caller processes rows. The
// first page is small, because some callers need only a few rows.
const (
	firstPage = 32      // number of rows in the first page
	growth    = 4       // ratio between the sizes of successive pages
	mostPage  = 4096    // maximum number of rows in a page
	pageBytes = 1 << 20 // total size of entries, in bytes, at which a page ends
)

// Entries implements storage.Reader.
func (l *ledger) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	size, err := l.walkSize(ctx)
	return func(yield func(storage.Entry, error) bool) {
		err := err
		next, end := from, size
		for most := firstPage; next < end && err == nil; most = min(growth*most, mostPage) {
			var page [][]byte
			page, err = l.entries(ctx, next, end, most)
			for _, entry := range page {
				if err := ctx.Err(); err != nil {
					yield(storage.Entry{}, fmt.Errorf("reading entries of ledger %q: %w", l.name, err))
					return
				}
				if !yield(storage.Entry{Seq: next, Bytes: entry}, nil) {
					return
				}
				next++
			}
		}
		if err != nil {
			yield(storage.Entry{}, fmt.Errorf("reading entries of ledger %q: %w", l.name, err))
		}
	}
}

// entries reads the entries with from ≤ seq < end. It stops once it has read the number of entries
// given by most, or once their total length reaches pageBytes bytes. It reads at least one entry
// unless it returns an error. With an error, it also returns the entries before the failed one.
func (l *ledger) entries(ctx context.Context, from, end uint64, most int) (page [][]byte, err error) {
	gap := false
	err = l.db.read(ctx, func(pool *pgxpool.Pool) error {
		page, gap = page[:0], false
		rows, err := pool.Query(ctx, `SELECT seq, bytes FROM colophon_entries WHERE ledger = $1 AND seq >= $2 AND seq < $3 ORDER BY seq LIMIT $4`,
			l.number, int64(from), int64(end), most)
		if err != nil {
			return err
		}
		defer rows.Close()
		next, bytes := from, 0
		for len(page) < most && bytes < pageBytes && rows.Next() {
			var seq int64
			var entry []byte
			if err := rows.Scan(&seq, &entry); err != nil {
				return err
			}
			if uint64(seq) != next {
				gap = true
				break
			}
			page, bytes, next = append(page, entry), bytes+len(entry), next+1
		}
		rows.Close() // reads and discards the remaining rows
		if err := rows.Err(); err != nil {
			return err
		}
		gap = gap || next < end && len(page) < most && bytes < pageBytes
		return nil
	})
	if err == nil && gap {
		err = storage.ExplainMissingEntry(ctx, l, from+uint64(len(page)), end)
	}
	return page, err
}

// References implements storage.Reader.
func (l *ledger) References(ctx context.Context, digest storage.Hash) iter.Seq2[uint64, error] {
	size, err := l.walkSize(ctx)
	return func(yield func(uint64, error) bool) {
		err := err
		var from uint64
		for most, more := firstPage, true; more && err == nil; most = min(growth*most, mostPage) {
			var seqs []int64
			seqs, err = collect(ctx, l.db, pgx.RowTo[int64], `SELECT n.seq FROM (
					SELECT c.seq FROM colophon_contents c WHERE c.ledger = $1 AND c.digest = $2
					UNION ALL
					SELECT r.seq FROM colophon_references r JOIN colophon_contents c ON c.ledger = r.ledger AND c.digest = r.digest
					WHERE r.ledger = $1 AND r.digest = $2 AND r.seq >= $3
				) AS n WHERE n.seq >= $3 AND n.seq < $4 ORDER BY n.seq LIMIT $5`, l.number, digest[:], int64(from), int64(size), most)
			for _, seq := range seqs {
				if !yield(uint64(seq), nil) {
					return
				}
				from = uint64(seq) + 1
			}
			more = len(seqs) == most
		}
		if err != nil {
			yield(0, fmt.Errorf("reading the references to content %x of ledger %q: %w", digest, l.name, err))
		}
	}
}

// redactionRow is a redaction and the size of the head when the redaction was read.
type redactionRow struct {
	storage.Redaction
	size uint64
}

// Redactions implements storage.Reader.
func (l *ledger) Redactions(ctx context.Context) iter.Seq2[storage.Redaction, error] {
	size, err := l.walkSize(ctx)
	return func(yield func(storage.Redaction, error) bool) {
		err := err
		// Seqs of 2^63 and more are stored as negative numbers. Only damage can produce such seqs.
		for _, half := range [][2]int64{{0, math.MaxInt64}, {math.MinInt64, -1}} {
			for from, most, more := half[0], firstPage, true; more && err == nil; most = min(growth*most, mostPage) {
				var page []redactionRow
				page, err = l.redactions(ctx, from, half[1], most)
				for _, r := range page {
					if r.RedactingSeq >= size && r.RedactingSeq < r.size {
						continue // stored by a commit after the walk began
					}
					if !yield(r.Redaction, nil) {
						return
					}
				}
				if more = len(page) == most; more {
					last := int64(page[most-1].Seq)
					from, more = last+1, last != half[1]
				}
			}
		}
		if err != nil {
			yield(storage.Redaction{}, fmt.Errorf("reading redactions of ledger %q: %w", l.name, err))
		}
	}
}

// redactions reads the stored redactions of records with from ≤ seq ≤ to, in order of seq. most is
// the maximum number of redactions to read.
func (l *ledger) redactions(ctx context.Context, from, to int64, most int) ([]redactionRow, error) {
	return collect(ctx, l.db, func(row pgx.CollectableRow) (r redactionRow, err error) {
		var seq, by, size int64
		err = row.Scan(&seq, &by, &size)
		r.Seq, r.RedactingSeq, r.size = uint64(seq), uint64(by), uint64(size)
		return r, err
	}, `SELECT r.seq, r.redacted_by, h.size FROM colophon_redactions r JOIN colophon_heads h ON h.ledger = r.ledger
		WHERE r.ledger = $1 AND r.seq >= $2 AND r.seq <= $3 ORDER BY r.seq LIMIT $4`, l.number, from, to, most)
}

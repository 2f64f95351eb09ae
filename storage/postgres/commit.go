package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"colophon/storage"
	"colophon/storage/postgres/commitrows"
)

// Commit implements storage.Store. Commits to the same ledger run one at a time.
func (l *ledger) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	if err := b.Check(old); err != nil {
		return fmt.Errorf("committing to ledger %q: %w", l.name, err)
	}
	err := l.commit(ctx, old, b, false)
	if isUniqueViolation(err) {
		err = l.commit(ctx, old, b, true)
	}
	if err != nil {
		return fmt.Errorf("committing to ledger %q: %w", l.name, err)
	}
	return nil
}

// commit is like Commit, but the caller has called b.Check. Unless replaceClaims is true, it writes nothing
// if a key has already been claimed, and returns an error for which isUniqueViolation reports true. The
// ledger has usually looked up the keys, so this is rare.
func (l *ledger) commit(ctx context.Context, old storage.Head, b storage.Batch, replaceClaims bool) error {
	return l.write(ctx, change{
		apply: func(ctx context.Context, conn *pgx.Conn, epoch int64) error {
			w := commitrows.Writer{Ledger: l.number, Epoch: epoch, Old: old, Batch: b, ReplaceClaims: replaceClaims, CopyMinEvents: l.db.config.copyMinEvents}
			return w.Write(ctx, conn)
		},
		old: &old, next: &b.Head,
		made: func(h storage.Head) bool {
			return h.Size == b.Head.Size && h.Tip == b.Head.Tip && h.TimeMicros == b.Head.TimeMicros && bytes.Equal(h.Checkpoint, b.Head.Checkpoint)
		},
	})
}

// isUniqueViolation reports whether err means that a row with the same key is already stored.
func isUniqueViolation(err error) bool {
	var reported *pgconn.PgError
	return errors.As(err, &reported) && reported.Code == codeUniqueViolation
}

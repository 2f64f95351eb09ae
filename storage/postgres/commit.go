package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

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
	if isCopyRefused(err) {
		if !l.db.copyRefused.Swap(true) {
			l.db.log.Warn("the database server refuses COPY; large commits use INSERT, which is slower", "error", err)
		}
		err = l.commit(context.WithoutCancel(ctx), old, b, false)
	}
	if isUniqueViolation(err) { // This is rare: package ledger claims only keys that it has not found, and only damage leaves references beyond the head.
		err = l.commit(context.WithoutCancel(ctx), old, b, true)
	}
	if err != nil {
		return fmt.Errorf("committing to ledger %q: %w", l.name, err)
	}
	return nil
}

// commit commits a batch that b.Check has accepted. If allowStored is false, and a key is already claimed
// or a reference to content is already stored, it writes nothing and returns an error for which
// isUniqueViolation is true.
func (l *ledger) commit(ctx context.Context, old storage.Head, b storage.Batch, allowStored bool) error {
	return l.write(ctx, change{
		apply: func(ctx context.Context, conn *pgx.Conn, epoch int64) error {
			w := commitrows.Writer{LedgerNumber: l.number, Epoch: epoch, Old: old, Batch: b, Known: &l.known, AllowStored: allowStored, CopyMinEvents: l.db.config.copyMinEvents,
				BeforeCommit: func() { forgetWarning(conn) }}
			if l.db.copyRefused.Load() {
				w.CopyMinEvents = math.MaxInt
			}
			return w.Write(ctx, conn)
		},
		old: &old, batch: &b,
		made: func(h storage.Head) bool {
			return h.Size == b.Head.Size && h.Tip == b.Head.Tip && h.TimeMicros == b.Head.TimeMicros && bytes.Equal(h.Checkpoint, b.Head.Checkpoint)
		},
	})
}

// isCopyRefused reports whether err means that the server or the role's privileges do not allow COPY, as
// with row-level security, or in CockroachDB for a role that is not an administrator.
func isCopyRefused(err error) bool {
	var copying *commitrows.CopyError
	var reported *pgconn.PgError
	if !errors.As(err, &copying) || !errors.As(err, &reported) {
		return false
	}
	switch reported.Code {
	case codeNoPrivilege, codeNotSupported, codeSyntax:
		return true
	}
	return false
}

// isUniqueViolation reports whether err is PostgreSQL's unique_violation.
func isUniqueViolation(err error) bool {
	var reported *pgconn.PgError
	return errors.As(err, &reported) && reported.Code == codeUniqueViolation
}

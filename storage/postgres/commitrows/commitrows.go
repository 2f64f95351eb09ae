// Package commitrows writes the rows of a commit to PostgreSQL, in one transaction.
package commitrows

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
	"colophon/storage/postgres/pgbinary"
)

// ErrRefused means that the head row does not meet a condition of the write. Nothing was written.
var ErrRefused = errors.New("the stored head differs from the head that the write builds on")

// CopyMinEvents is the smallest number of events for which Write uses COPY. COPY costs the database
// server less per row than INSERT, but takes more round trips. BenchmarkCommit compares them: 0.58 to
// 0.79 of the time with 1,024 records, no difference from 32 to 256.
const CopyMinEvents = 256

// Writer writes one batch to one ledger.
type Writer struct {
	LedgerNumber int64
	Epoch        int64        // epoch that the head row must have
	Old          storage.Head // head that the batch builds on
	Batch        storage.Batch
	Known        *KnownContents // digests that Write need not look up
	// If AllowStored is true, a claim replaces a stored claim of the same key, and references to content may be
	// stored already. If it is false, Write fails with a unique violation in both cases. False is faster.
	AllowStored bool
	// CopyMinEvents is the constant CopyMinEvents, except in tests.
	CopyMinEvents int
	// BeforeCommit is called before Write sends COMMIT. A warning from the server after that can mean that
	// the commit is not durable. It is up to the caller to check for warnings.
	BeforeCommit func()
}

// Write writes all rows and commits them. It sends COMMIT together with the last statements, which saves
// a round trip. After ErrRefused, and after an error that the server reported before COMMIT, nothing was
// written, and the caller must roll back. After any other error, the outcome is unknown. Even if Write
// returns nil, the commit may not be durable if the server has sent a warning (see BeforeCommit).
//
// Write returns ErrRefused if the head row differs from Old, has another epoch, or is frozen. It uses
// COPY for at least CopyMinEvents events, unless the batch redacts records or AllowStored is true.
func (w *Writer) Write(ctx context.Context, conn *pgx.Conn) error {
	if len(w.Batch.Entries) >= w.CopyMinEvents && len(w.Batch.Redactions) == 0 && !w.AllowStored {
		return w.writeWithCopy(ctx, conn)
	}
	return w.writeWithInsert(ctx, conn)
}

// begin returns the statements that begin the transaction and update the head row, which also locks
// the row. They must be the first of the transaction. If no row meets the conditions, the statement divides
// by zero, so the server skips all statements sent with it, COMMIT included.
func (w *Writer) begin() *statements {
	s := &statements{ledger: pgbinary.Bigint(w.LedgerNumber)}
	s.add("begin")
	old, next := &w.Old, &w.Batch.Head
	s.add(`WITH moved AS (
			UPDATE colophon_heads SET size = $5, tip = $6, time = $7, checkpoint = $8
			WHERE ledger = $1 AND epoch = $2 AND size = $3 AND tip = $4 AND NOT frozen RETURNING ledger
		) SELECT 1 / count(*) FROM moved`,
		s.ledger, pgbinary.Bigint(w.Epoch), pgbinary.Bigint(int64(old.Size)), old.Tip[:],
		pgbinary.Bigint(int64(next.Size)), next.Tip[:], pgbinary.Bigint(next.TimeMicros), append([]byte{}, next.Checkpoint...))
	return s
}

// redact records the redaction of each record that is not redacted yet, removes the references from
// these records to content, and deletes content that no record needs any longer. If a stored
// redaction names an event beyond the head, redact overwrites it, because no commit wrote it and it
// erased nothing.
func (w *Writer) redact(ctx context.Context, conn *pgx.Conn) error {
	redactions := w.Batch.Redactions
	first := make(map[uint64]*storage.Redaction, len(redactions))
	var seqs, by []int64
	for i := range redactions {
		if r := &redactions[i]; first[r.Seq] == nil {
			first[r.Seq] = r
			seqs, by = append(seqs, int64(r.Seq)), append(by, int64(r.RedactingSeq))
		}
	}
	rows, err := conn.Query(ctx, `INSERT INTO colophon_redactions (ledger, seq, redacted_by)
		SELECT $1::bigint, r.seq, r.redacted_by FROM unnest($2::bigint[], $3::bigint[]) AS r (seq, redacted_by)
		ON CONFLICT (ledger, seq) DO UPDATE SET redacted_by = excluded.redacted_by
		WHERE colophon_redactions.redacted_by < 0 OR colophon_redactions.redacted_by >= $4 RETURNING seq`,
		w.LedgerNumber, seqs, by, int64(w.Old.Size))
	if err != nil {
		return err
	}
	redacted, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	var digests [][]byte
	var needed []int64
	for _, seq := range redacted {
		for _, digest := range first[uint64(seq)].Digests {
			digests, needed = append(digests, digest[:]), append(needed, seq)
		}
	}
	if len(digests) == 0 {
		return nil
	}
	var batch pgx.Batch
	batch.Queue(`DELETE FROM colophon_references
		WHERE ledger = $1 AND (digest, seq) IN (SELECT w.digest, w.seq FROM unnest($2::bytea[], $3::bigint[]) AS w (digest, seq))`,
		w.LedgerNumber, digests, needed)
	batch.Queue(`UPDATE colophon_contents SET seq = NULL
		WHERE ledger = $1 AND (digest, seq) IN (SELECT w.digest, w.seq FROM unnest($2::bytea[], $3::bigint[]) AS w (digest, seq))`,
		w.LedgerNumber, digests, needed)
	batch.Queue(`DELETE FROM colophon_contents
		WHERE ledger = $1 AND digest = ANY ($2::bytea[]) AND seq IS NULL
		AND NOT EXISTS (SELECT 1 FROM colophon_references r WHERE r.ledger = $1 AND r.digest = colophon_contents.digest)`,
		w.LedgerNumber, digests)
	return conn.SendBatch(ctx, &batch).Close()
}

package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"colophon/storage"
	"colophon/storage/postgres/pgbinary"
)

// Limits on one statement, in bytes of row data and in rows. They are below the message size limits
// of all supported engines. A larger commit is split into several statements.
const (
	statementBytes = 4 << 20
	statementRows  = 4096
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
// if a key has already been claimed, and returns an error for which isUniqueViolation reports true.
// The caller has usually looked up the keys, and inserting a row is cheaper if no other can exist.
func (l *ledger) commit(ctx context.Context, old storage.Head, b storage.Batch, replaceClaims bool) error {
	return l.write(ctx, change{
		apply: func(ctx context.Context, conn *pgx.Conn, epoch int64) error {
			if l.usesCopy(b) && !replaceClaims {
				return l.applyCopy(ctx, conn, epoch, old, b)
			}
			return l.apply(ctx, conn, epoch, old, b, replaceClaims)
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

// apply begins a transaction and runs the statements of a commit, but does not commit the
// transaction. It sends all the statements to the server together, unless the commit redacts
// records.
func (l *ledger) apply(ctx context.Context, conn *pgx.Conn, epoch int64, old storage.Head, b storage.Batch, replaceClaims bool) error {
	s := &statements{ledger: pgbinary.Bigint(l.number)}
	s.begin()
	s.head(epoch, old, b.Head)
	if len(b.Redactions) > 0 {
		if err := s.send(ctx, conn); err != nil {
			return err
		}
		if err := l.redact(ctx, conn, old, b.Redactions); err != nil {
			return err
		}
	}
	s.entries(old.Size, b.Entries)
	s.contents(b.Contents)
	s.claims(b.Claims, replaceClaims)
	s.tiles(b.Tiles)
	return s.send(ctx, conn)
}

// statements is a queue of statements for one ledger that are sent to the server together.
type statements struct {
	ledger []byte // the ledger's number, encoded as a bigint
	queued []statement
}

// statement is a query with its parameters, which are encoded in PostgreSQL's binary format.
type statement struct {
	query      string
	parameters [][]byte
	row        func(values [][]byte) // receives each row of the result in PostgreSQL's binary format; may be nil
	rows       int64                 // required number of changed rows, or 0 if any number is allowed; send returns errRefused if the number differs
}

func (s *statements) add(query string, parameters ...[]byte) {
	s.queued = append(s.queued, statement{query: query, parameters: parameters})
}

func (s *statements) begin() { s.add("begin") }

var binaryFormat = []int16{pgx.BinaryFormatCode} // format code of all parameters and results

// send sends all queued statements together and returns the first error. Each statement stays
// prepared on the connection. This package encodes the parameters itself, because pgx encodes
// arrays one element at a time, which took as long as running the statements on the server.
func (s *statements) send(ctx context.Context, conn *pgx.Conn) error {
	var batch pgconn.Batch
	for i := range s.queued {
		prepared, err := conn.Prepare(ctx, s.queued[i].query, s.queued[i].query)
		if err != nil {
			return err
		}
		formats := binaryFormat
		if len(s.queued[i].parameters) == 0 {
			formats = nil
		}
		batch.ExecPrepared(prepared.Name, s.queued[i].parameters, formats, binaryFormat)
	}
	results := conn.PgConn().ExecBatch(ctx, &batch)
	var failed error
	for i := 0; failed == nil && results.NextResult(); i++ {
		result := results.ResultReader()
		for row := s.queued[i].row; row != nil && result.NextRow(); {
			row(result.Values())
		}
		tag, err := result.Close()
		if want := s.queued[i].rows; err == nil && want != 0 && tag.RowsAffected() != want {
			err = errRefused
		}
		failed = err
	}
	s.queued = nil
	return cmp.Or(failed, results.Close())
}

// head adds the statement that updates the head row, which also locks the row. It must be the first
// statement of a transaction.
func (s *statements) head(epoch int64, old, next storage.Head) {
	s.add(`UPDATE colophon_heads SET size = $5, tip = $6, time = $7, checkpoint = $8
		WHERE ledger = $1 AND epoch = $2 AND size = $3 AND tip = $4 AND NOT frozen`,
		s.ledger, pgbinary.Bigint(epoch), pgbinary.Bigint(int64(old.Size)), old.Tip[:], pgbinary.Bigint(int64(next.Size)), next.Tip[:], pgbinary.Bigint(next.TimeMicros), filled(next.Checkpoint))
	s.queued[len(s.queued)-1].rows = 1
}

// forEachChunk splits n rows into ranges that are small enough for one statement. It passes the bounds
// of every range to the function each. size returns the size of row i in bytes.
func forEachChunk(n int, size func(i int) int, each func(start, end int)) {
	start, bytes := 0, 0
	for i := range n {
		if more := size(i); i > start && (bytes+more > statementBytes || i-start == statementRows) {
			each(start, i)
			start, bytes = i, 0
		}
		bytes += size(i)
	}
	if start < n {
		each(start, n)
	}
}

func (s *statements) entries(first uint64, entries [][]byte) {
	forEachChunk(len(entries), func(i int) int { return len(entries[i]) }, func(start, end int) {
		seqs, bytes := make([]int64, 0, end-start), make([][]byte, 0, end-start)
		for i := start; i < end; i++ {
			seqs, bytes = append(seqs, int64(first)+int64(i)), append(bytes, entries[i])
		}
		s.add(`INSERT INTO colophon_entries (ledger, seq, bytes)
			SELECT $1::bigint, e.seq, e.bytes FROM unnest($2::bigint[], $3::bytea[]) AS e (seq, bytes)`, s.ledger, pgbinary.BigintArray(seqs), pgbinary.ByteaArray(bytes))
	})
}

// claims adds the statements that store a claim for each idempotency key. If a batch claims a key
// twice, the later claim wins. If replace is false, the statements fail if a key is already stored.
func (s *statements) claims(keys []storage.Claim, replace bool) {
	onConflict := ""
	if replace {
		onConflict = ` ON CONFLICT (ledger, key) DO UPDATE SET record = excluded.record, seq = excluded.seq`
	}
	at := make(map[storage.Hash]int, len(keys))
	last := make([]storage.Claim, 0, len(keys))
	for _, k := range keys {
		if i, again := at[k.KeyDigest]; again {
			last[i] = k
			continue
		}
		at[k.KeyDigest] = len(last)
		last = append(last, k)
	}
	forEachChunk(len(last), func(int) int { return 0 }, func(start, end int) {
		keys, records, seqs := make([][]byte, 0, end-start), make([][]byte, 0, end-start), make([]int64, 0, end-start)
		for i := start; i < end; i++ {
			k := &last[i]
			keys, records, seqs = append(keys, k.KeyDigest[:]), append(records, k.RecordDigest[:]), append(seqs, int64(k.Seq))
		}
		s.add(`INSERT INTO colophon_claims (ledger, key, record, seq)
			SELECT $1::bigint, c.key, c.record, c.seq FROM unnest($2::bytea[], $3::bytea[], $4::bigint[]) AS c (key, record, seq)`+onConflict, s.ledger, pgbinary.ByteaArray(keys), pgbinary.ByteaArray(records), pgbinary.BigintArray(seqs))
	})
}

// tiles adds one statement for each tile. The statement stores only the hashes that are not stored
// yet.
func (s *statements) tiles(tiles []storage.Tile) {
	for _, t := range tiles {
		s.add(`INSERT INTO colophon_tiles (ledger, level, idx, stop, hashes)
			SELECT $1::bigint, $2::bigint, $3::bigint, $4::bigint, substring($5::bytea, (stored.stop * 32 + 1)::int) FROM (
				SELECT coalesce((SELECT stop FROM colophon_tiles WHERE ledger = $1 AND level = $2 AND idx = $3 ORDER BY stop DESC LIMIT 1), 0) AS stop
			) AS stored WHERE stored.stop < $4::bigint`,
			s.ledger, pgbinary.Bigint(int64(t.Level)), pgbinary.Bigint(int64(t.Index)), pgbinary.Bigint(int64(len(t.Hashes)/storage.HashSize)), t.Hashes)
	}
}

// contents adds the statements that store content. They store each piece that the ledger does not
// have yet, along with the seq of an event that needs it. For every other event that needs the
// piece, they store a reference.
func (s *statements) contents(contents []storage.Content) {
	type need struct {
		digest storage.Hash
		seq    uint64
	}
	held := make(map[storage.Hash]bool, len(contents))
	noted := make(map[need]bool, len(contents))
	size := func(i int) int {
		if held[contents[i].Digest] {
			return 0
		}
		return len(contents[i].Bytes)
	}
	forEachChunk(len(contents), size, func(start, end int) {
		var digests, bytes, needed [][]byte
		var seqs, by []int64
		for i := start; i < end; i++ {
			c := &contents[i]
			if !held[c.Digest] {
				held[c.Digest] = true
				digests, seqs, bytes = append(digests, c.Digest[:]), append(seqs, int64(c.Seq)), append(bytes, c.Bytes)
			}
			if n := (need{c.Digest, c.Seq}); !noted[n] {
				noted[n] = true
				needed, by = append(needed, c.Digest[:]), append(by, int64(c.Seq))
			}
		}
		s.add(`WITH fresh AS (
				INSERT INTO colophon_contents (ledger, digest, seq, bytes)
				SELECT $1::bigint, c.digest, c.seq, c.bytes FROM unnest($2::bytea[], $3::bigint[], $4::bytea[]) AS c (digest, seq, bytes)
				ON CONFLICT (ledger, digest) DO NOTHING RETURNING digest, seq
			)
			INSERT INTO colophon_references (ledger, digest, seq)
			SELECT $1::bigint, n.digest, n.seq FROM unnest($5::bytea[], $6::bigint[]) AS n (digest, seq)
			WHERE NOT EXISTS (SELECT 1 FROM fresh WHERE fresh.digest = n.digest AND fresh.seq = n.seq)
			ON CONFLICT (ledger, digest, seq) DO NOTHING`, s.ledger, pgbinary.ByteaArray(digests), pgbinary.BigintArray(seqs), pgbinary.ByteaArray(bytes), pgbinary.ByteaArray(needed), pgbinary.BigintArray(by))
	})
}

// redact records the redaction of each record that is not redacted yet, removes the references from
// these records to content, and deletes content that no record needs any longer. If a stored
// redaction names an event beyond the head, redact overwrites it, because no commit wrote it and it
// erased nothing.
func (l *ledger) redact(ctx context.Context, conn *pgx.Conn, old storage.Head, redactions []storage.Redaction) error {
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
		l.number, seqs, by, int64(old.Size))
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
		l.number, digests, needed)
	batch.Queue(`UPDATE colophon_contents SET seq = NULL
		WHERE ledger = $1 AND (digest, seq) IN (SELECT w.digest, w.seq FROM unnest($2::bytea[], $3::bigint[]) AS w (digest, seq))`,
		l.number, digests, needed)
	batch.Queue(`DELETE FROM colophon_contents
		WHERE ledger = $1 AND digest = ANY ($2::bytea[]) AND seq IS NULL
		AND NOT EXISTS (SELECT 1 FROM colophon_references r WHERE r.ledger = $1 AND r.digest = colophon_contents.digest)`,
		l.number, digests)
	return conn.SendBatch(ctx, &batch).Close()
}

package commitrows

import (
	"context"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
	"colophon/storage/postgres/pgbinary"
)

// Limits on one statement, in bytes of row data and in rows. They are below the message size limits
// of all supported engines. A larger commit is split into several statements.
const (
	statementBytes = 4 << 20
	statementRows  = 4096
)

// writeWithInsert writes the rows with INSERT, and commits them. It sends all the statements to the server
// together, unless the commit redacts records.
func (w *Writer) writeWithInsert(ctx context.Context, conn *pgx.Conn) error {
	b := &w.Batch
	s := w.begin()
	known := w.Known
	if len(b.Redactions) > 0 {
		known = new(KnownContents) // redact can delete content
		if _, err := s.send(ctx, conn); err != nil {
			return err
		}
		if err := w.redact(ctx, conn); err != nil {
			return err
		}
	}
	s.entries(w.Old.Size, b.Entries)
	s.contents(b.Contents, known, w.AllowStored)
	s.claims(b.Claims, w.AllowStored)
	s.tiles(b.Tiles)
	return s.commit(ctx, conn, w.BeforeCommit)
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
// twice, the later claim wins. If allowStored is false, the statements fail if a key is already stored.
func (s *statements) claims(keys []storage.Claim, allowStored bool) {
	onConflict := ""
	if allowStored {
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
// piece, they store a reference. If allowStored is true, they skip references that are stored already.
// Only damage can cause this, because the seqs of the commit's events are new.
func (s *statements) contents(contents []storage.Content, known *KnownContents, allowStored bool) {
	onConflict := ""
	if allowStored {
		onConflict = ` ON CONFLICT (ledger, digest, seq) DO NOTHING`
	}
	type need struct {
		digest storage.Hash
		seq    uint64
	}
	held := make(map[storage.Hash]bool, len(contents))
	noted := make(map[need]bool, len(contents))
	size := func(i int) int {
		if held[contents[i].Digest] || known.Contains(contents[i].Digest) {
			return 0
		}
		return len(contents[i].Bytes)
	}
	forEachChunk(len(contents), size, func(start, end int) {
		var digests, bytes, needed [][]byte
		var seqs, by []int64
		for i := start; i < end; i++ {
			c := &contents[i]
			if !held[c.Digest] && !known.Contains(c.Digest) {
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
			WHERE NOT EXISTS (SELECT 1 FROM fresh WHERE fresh.digest = n.digest AND fresh.seq = n.seq)`+onConflict, s.ledger, pgbinary.ByteaArray(digests), pgbinary.BigintArray(seqs), pgbinary.ByteaArray(bytes), pgbinary.ByteaArray(needed), pgbinary.BigintArray(by))
	})
}

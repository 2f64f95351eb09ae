package commitrows

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
	"colophon/storage/postgres/pgbinary"
)

// writeWithCopy writes entries, content, references, and claims with COPY, and commits them. COPY cannot
// skip or replace a row. So writeWithCopy first looks up which content is stored, unless w.Known has it. It
// fails with a unique violation if a key is already claimed or occurs twice in the batch, or if a reference is
// already stored.
func (w *Writer) writeWithCopy(ctx context.Context, conn *pgx.Conn) error {
	b := &w.Batch
	s := w.begin()
	p := planContents(b.Contents, w.Known)
	s.lookUp(p)
	if _, err := s.send(ctx, conn); err != nil {
		return err
	}
	fresh, references := p.split(b.Contents)
	for _, target := range []struct {
		table   string
		columns int
		rows    int
		encode  func(row *pgbinary.Row, i int)
	}{
		{"colophon_entries (ledger, seq, bytes)", 3, len(b.Entries), func(row *pgbinary.Row, i int) {
			row.Bigint(int64(w.Old.Size) + int64(i))
			row.Bytea(b.Entries[i])
		}},
		{"colophon_contents (ledger, digest, seq, bytes)", 4, len(fresh), func(row *pgbinary.Row, i int) {
			content := fresh[i]
			row.Bytea(content.Digest[:])
			row.Bigint(int64(content.Seq))
			row.Bytea(content.Bytes)
		}},
		{"colophon_references (ledger, digest, seq)", 3, len(references), func(row *pgbinary.Row, i int) {
			row.Bytea(references[i].Digest[:])
			row.Bigint(int64(references[i].Seq))
		}},
		{"colophon_claims (ledger, key, record, seq)", 4, len(b.Claims), func(row *pgbinary.Row, i int) {
			claim := &b.Claims[i]
			row.Bytea(claim.KeyDigest[:])
			row.Bytea(claim.RecordDigest[:])
			row.Bigint(int64(claim.Seq))
		}},
	} {
		if target.rows == 0 {
			continue
		}
		rows := pgbinary.NewCopyReader(target.columns, target.rows, func(row *pgbinary.Row, i int) {
			row.Bigint(w.LedgerNumber)
			target.encode(row, i)
		})
		if _, err := conn.PgConn().CopyFrom(ctx, rows, "COPY "+target.table+" FROM STDIN (FORMAT binary)"); err != nil {
			return &CopyError{Table: target.table, Err: err}
		}
	}
	s.tiles(b.Tiles)
	return s.commit(ctx, conn, w.BeforeCommit)
}

// CopyError is an error from a COPY.
type CopyError struct {
	Table string // name of the table and of its columns
	Err   error
}

func (e *CopyError) Error() string { return fmt.Sprintf("copying rows to %s: %v", e.Table, e.Err) }

func (e *CopyError) Unwrap() error { return e.Err }

// contentPlan decides how to store the content of a commit.
type contentPlan struct {
	index  map[storage.Hash]int // index of each distinct digest in pieces
	pieces []piece
}

// piece is one distinct piece of content.
type piece struct {
	digest []byte
	stored bool   // the ledger has the piece, or split has returned it for storing
	seq    uint64 // seq of the last event seen that needs the piece
	hasSeq bool   // seq is valid
}

func planContents(contents []storage.Content, known *KnownContents) *contentPlan {
	p := &contentPlan{index: make(map[storage.Hash]int, len(contents)), pieces: make([]piece, 0, len(contents))}
	for i := range contents {
		if _, again := p.index[contents[i].Digest]; !again {
			p.index[contents[i].Digest] = len(p.pieces)
			p.pieces = append(p.pieces, piece{digest: contents[i].Digest[:], stored: known.Contains(contents[i].Digest)})
		}
	}
	return p
}

// lookUp adds the statements that look up the plan's digests that are not known to be stored. When send
// runs them, they set stored for each piece that the ledger has.
func (s *statements) lookUp(p *contentPlan) {
	unknown := make([][]byte, 0, len(p.pieces))
	for i := range p.pieces {
		if !p.pieces[i].stored {
			unknown = append(unknown, p.pieces[i].digest)
		}
	}
	forEachChunk(len(unknown), func(int) int { return 0 }, func(start, end int) {
		digests := unknown[start:end]
		s.add(`SELECT digest FROM colophon_contents WHERE ledger = $1::bigint AND digest = ANY ($2::bytea[])`, s.ledger, pgbinary.ByteaArray(digests))
		s.queued[len(s.queued)-1].row = func(values [][]byte) {
			if i, known := p.index[storage.Hash(values[0])]; known {
				p.pieces[i].stored = true
			}
		}
	})
}

// split returns the content and the references to store: the same rows that statements.contents inserts.
// contents must be in the order of seq, as storage.Batch.Check requires. split may be called only once,
// after the statements of lookUp have run.
func (p *contentPlan) split(contents []storage.Content) (fresh, references []*storage.Content) {
	fresh = make([]*storage.Content, 0, len(p.pieces))
	for i := range contents {
		c := &contents[i]
		piece := &p.pieces[p.index[c.Digest]]
		switch {
		case !piece.stored:
			piece.stored = true
			fresh = append(fresh, c)
		case !piece.hasSeq || piece.seq != c.Seq:
			references = append(references, c)
		}
		piece.seq, piece.hasSeq = c.Seq, true
	}
	return fresh, references
}

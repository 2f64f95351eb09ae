package commitrows

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
	"colophon/storage/postgres/pgbinary"
)

// copy is like insert, but writes entries, content, and claims with COPY. COPY cannot skip or replace a
// stored row, so copy first looks up which content is stored.
func (w *Writer) copy(ctx context.Context, conn *pgx.Conn) error {
	b := &w.Batch
	s := w.begin()
	p := planContents(b.Contents)
	s.lookUp(p)
	if err := s.send(ctx, conn); err != nil {
		return err
	}
	fresh, references := p.split(b.Contents)
	for _, to := range []struct {
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
		if to.rows == 0 {
			continue
		}
		rows := pgbinary.NewCopyReader(to.columns, to.rows, func(row *pgbinary.Row, i int) {
			row.Bigint(w.Ledger)
			to.encode(row, i)
		})
		if _, err := conn.PgConn().CopyFrom(ctx, rows, "COPY "+to.table+" FROM STDIN (FORMAT binary)"); err != nil {
			return fmt.Errorf("copying rows to %s: %w", to.table, err)
		}
	}
	s.tiles(b.Tiles)
	return s.send(ctx, conn)
}

// contentPlan decides how to store the content of a commit.
type contentPlan struct {
	index  map[storage.Hash]int // index of each distinct digest in pieces
	pieces []piece
}

// piece is one distinct piece of content.
type piece struct {
	digest []byte
	stored bool   // the ledger already has the piece
	seq    uint64 // last event that has been found to need the piece
	needed bool   // seq is valid
}

func planContents(contents []storage.Content) *contentPlan {
	p := &contentPlan{index: make(map[storage.Hash]int, len(contents)), pieces: make([]piece, 0, len(contents))}
	for i := range contents {
		if _, again := p.index[contents[i].Digest]; !again {
			p.index[contents[i].Digest] = len(p.pieces)
			p.pieces = append(p.pieces, piece{digest: contents[i].Digest[:]})
		}
	}
	return p
}

// lookUp adds the statements that mark the pieces that the ledger already has.
func (s *statements) lookUp(p *contentPlan) {
	forEachChunk(len(p.pieces), func(int) int { return 0 }, func(start, end int) {
		digests := make([][]byte, 0, end-start)
		for _, piece := range p.pieces[start:end] {
			digests = append(digests, piece.digest)
		}
		s.add(`SELECT digest FROM colophon_contents WHERE ledger = $1::bigint AND digest = ANY ($2::bytea[])`, s.ledger, pgbinary.ByteaArray(digests))
		s.queued[len(s.queued)-1].row = func(values [][]byte) {
			if i, known := p.index[storage.Hash(values[0])]; known {
				p.pieces[i].stored = true
			}
		}
	})
}

// split returns the content to store, and the references to store, as the statement of contents does.
func (p *contentPlan) split(contents []storage.Content) (fresh, references []*storage.Content) {
	fresh = make([]*storage.Content, 0, len(p.pieces))
	for i := range contents {
		c := &contents[i]
		piece := &p.pieces[p.index[c.Digest]]
		switch {
		case !piece.stored:
			piece.stored = true
			fresh = append(fresh, c)
		case !piece.needed || piece.seq != c.Seq:
			references = append(references, c)
		}
		piece.seq, piece.needed = c.Seq, true
	}
	return fresh, references
}

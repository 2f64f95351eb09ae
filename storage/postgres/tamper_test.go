package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
)

func errorIs(err, target error) bool { return errors.Is(err, target) }

// tamperer changes the rows of a ledger. It implements storagetest.Tamperer.
type tamperer struct {
	t      *testing.T
	conn   *pgx.Conn
	ledger int64
}

// exec runs a statement in which $1 is the number of the ledger.
func (x *tamperer) exec(statement string, arguments ...any) error {
	_, err := x.conn.Exec(x.t.Context(), statement, append([]any{x.ledger}, arguments...)...)
	return err
}

// change is like exec, but returns storage.ErrNotFound if the statement changes no row.
func (x *tamperer) change(statement string, arguments ...any) error {
	tag, err := x.conn.Exec(x.t.Context(), statement, append([]any{x.ledger}, arguments...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = storage.ErrNotFound
	}
	return err
}

func (x *tamperer) SetEntry(seq uint64, b []byte) error {
	return x.exec(`INSERT INTO colophon_entries (ledger, seq, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (ledger, seq) DO UPDATE SET bytes = excluded.bytes`, int64(seq), b)
}

func (x *tamperer) DeleteEntry(seq uint64) error {
	return x.exec(`DELETE FROM colophon_entries WHERE ledger = $1 AND seq = $2`, int64(seq))
}

func (x *tamperer) SetTile(level uint8, index uint64, hashes []byte) error {
	if err := x.DeleteTile(level, index); err != nil {
		return err
	}
	return x.exec(`INSERT INTO colophon_tiles (ledger, level, idx, stop, hashes) VALUES ($1, $2, $3, $4, $5)`,
		int64(level), int64(index), len(hashes)/storage.HashSize, hashes)
}

func (x *tamperer) DeleteTile(level uint8, index uint64) error {
	return x.exec(`DELETE FROM colophon_tiles WHERE ledger = $1 AND level = $2 AND idx = $3`, int64(level), int64(index))
}

func (x *tamperer) SetHead(h storage.Head) error {
	return x.exec(`UPDATE colophon_heads SET size = $2, tip = $3, time = $4, checkpoint = $5 WHERE ledger = $1`,
		int64(h.Size), h.Tip[:], h.TimeMicros, filled(h.Checkpoint))
}

func (x *tamperer) SetContent(digest storage.Hash, b []byte) error {
	return x.change(`UPDATE colophon_contents SET bytes = $3 WHERE ledger = $1 AND digest = $2`, digest[:], filled(b))
}

func (x *tamperer) DeleteContent(digest storage.Hash) error {
	if err := x.change(`DELETE FROM colophon_contents WHERE ledger = $1 AND digest = $2`, digest[:]); err != nil {
		return err
	}
	return x.exec(`DELETE FROM colophon_references WHERE ledger = $1 AND digest = $2`, digest[:])
}

func (x *tamperer) SetRedaction(seq, by uint64) error {
	return x.exec(`INSERT INTO colophon_redactions (ledger, seq, redacted_by) VALUES ($1, $2, $3)
		ON CONFLICT (ledger, seq) DO UPDATE SET redacted_by = excluded.redacted_by`, int64(seq), int64(by))
}

func (x *tamperer) DeleteRedaction(seq uint64) error {
	return x.exec(`DELETE FROM colophon_redactions WHERE ledger = $1 AND seq = $2`, int64(seq))
}

func (x *tamperer) DeleteReference(digest storage.Hash, seq uint64) error {
	if err := x.change(`UPDATE colophon_contents SET seq = CASE WHEN seq = $3 THEN NULL ELSE seq END WHERE ledger = $1 AND digest = $2`, digest[:], int64(seq)); err != nil {
		return err
	}
	return x.exec(`DELETE FROM colophon_references WHERE ledger = $1 AND digest = $2 AND seq = $3`, digest[:], int64(seq))
}

func (x *tamperer) SetClaim(k storage.Claim) error {
	return x.exec(`INSERT INTO colophon_claims (ledger, key, record, seq) VALUES ($1, $2, $3, $4)
		ON CONFLICT (ledger, key) DO UPDATE SET record = excluded.record, seq = excluded.seq`, k.KeyDigest[:], k.RecordDigest[:], int64(k.Seq))
}

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
)

// Value is a named value of the whole database, which all its servers share.
type Value struct {
	Version int64 // 1 when it is first stored; each change raises it by one
	Bytes   []byte
}

// Value returns a named value; storage.ErrNotFound if it is not stored.
func (d *Database) Value(ctx context.Context, name string) (Value, error) {
	var v Value
	err := d.row(ctx, []any{&v.Version, &v.Bytes}, `SELECT version, value FROM colophon_shared WHERE name = $1`, name)
	if err != nil {
		return Value{}, fmt.Errorf("reading the value %q of the database: %w", name, err)
	}
	return v, nil
}

// SetValue replaces a named value of that version, durably; version 0 means that it is not
// stored yet. It returns storage.ErrConflict if the stored version is another one. After any
// other error the outcome is unknown.
func (d *Database) SetValue(ctx context.Context, name string, version int64, value []byte) error {
	err := d.change(ctx, func(tx pgx.Tx) error {
		query, arguments := `UPDATE colophon_shared SET version = version + 1, value = $3 WHERE name = $1 AND version = $2`, []any{name, version, filled(value)}
		if version == 0 {
			query, arguments = `INSERT INTO colophon_shared (name, version, value) VALUES ($1, 1, $2) ON CONFLICT DO NOTHING`, []any{name, filled(value)}
		}
		tag, err := tx.Exec(ctx, query, arguments...)
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("%w: its version is not %d any longer", storage.ErrConflict, version)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the value %q of the database: %w", name, err)
	}
	return nil
}

// change runs a transaction that concerns no single ledger.
func (d *Database) change(ctx context.Context, apply func(pgx.Tx) error) error {
	if err := d.writable(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	err := inTransaction(ctx, d.writes, apply)
	if errors.Is(err, storage.ErrConflict) {
		return err
	}
	return explained(err)
}

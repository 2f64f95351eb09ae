package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
)

// Value returns the database-wide value with the given name, and its version. All servers that use
// the database share these values. A value has version 1 when it is first stored, and each change
// increases the version by one. If the value is not stored, Value returns nil and version 0.
func (d *Database) Value(ctx context.Context, name string) (value []byte, version int64, err error) {
	err = d.row(ctx, []any{&value, &version}, `SELECT value, version FROM colophon_shared WHERE name = $1`, name)
	return value, version, ignoreNotFound(err, name)
}

// ValueVersion returns the version of a database-wide value without reading the value. It returns 0
// if the value is not stored.
func (d *Database) ValueVersion(ctx context.Context, name string) (version int64, err error) {
	err = d.row(ctx, []any{&version}, `SELECT version FROM colophon_shared WHERE name = $1`, name)
	return version, ignoreNotFound(err, name)
}

func ignoreNotFound(err error, name string) error {
	if err == nil || errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("reading the database-wide value %q: %w", name, err)
}

// SetValue durably replaces a database-wide value if its stored version equals the given version.
// Version 0 means that the value is not stored yet. SetValue returns storage.ErrConflict if the
// versions differ. After any other error, the outcome is unknown.
func (d *Database) SetValue(ctx context.Context, name string, version int64, value []byte) error {
	err := d.change(ctx, func(conn *pgx.Conn) error {
		query, arguments := `UPDATE colophon_shared SET version = version + 1, value = $3 WHERE name = $1 AND version = $2`, []any{name, version, filled(value)}
		if version == 0 {
			query, arguments = `INSERT INTO colophon_shared (name, version, value) VALUES ($1, 1, $2) ON CONFLICT DO NOTHING`, []any{name, filled(value)}
		}
		tag, err := conn.Exec(ctx, query, arguments...)
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("%w: the value's version is no longer %d", storage.ErrConflict, version)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the database-wide value %q: %w", name, err)
	}
	return nil
}

// change runs apply in a write transaction that is not tied to any one ledger.
func (d *Database) change(ctx context.Context, apply func(*pgx.Conn) error) error {
	if err := d.writable(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	err := inTransaction(ctx, d.writes, func(conn *pgx.Conn) error {
		if err := begin(ctx, conn); err != nil {
			return err
		}
		return apply(conn)
	})
	if errors.Is(err, storage.ErrConflict) {
		return err
	}
	return translateError(err)
}

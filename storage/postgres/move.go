package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// MigrationState says what the colophon migrate command is doing, or has done, with a database.
type MigrationState string

// The states of a database that a migration has locked.
const (
	// MigrationArriving means that ledgers are being copied into the database and are not complete
	// yet.
	MigrationArriving MigrationState = "arriving"
	// MigrationLeaving means that ledgers are being copied out of the database.
	MigrationLeaving MigrationState = "leaving"
	// MigrationMoved means that all ledgers have been copied to another database.
	MigrationMoved MigrationState = "moved"
)

// MigrationLock is the note that a migration leaves in a database that it has locked.
type MigrationLock struct {
	State MigrationState `json:"state"`
	Peer  string         `json:"peer"`  // names the other database of the migration, for use in messages
	Since time.Time      `json:"since"` // time at which State was set
}

// MigrationLockError means that a migration has locked the database. Nothing was changed.
type MigrationLockError struct {
	MigrationLock
	Address string // host and name of the database
}

// Error says what happened and what to do.
func (e *MigrationLockError) Error() string {
	since := e.Since.UTC().Format(time.RFC3339)
	switch e.State {
	case MigrationArriving:
		return fmt.Sprintf("the migration of the ledgers from %s to the database %s, which started at %s, is not complete; run colophon migrate again with the same arguments, or drop the colophon_… tables to start over",
			e.Peer, e.Address, since)
	case MigrationLeaving:
		return fmt.Sprintf("the migration of the ledgers from the database %s to %s, which started at %s, is not complete; run colophon migrate again with the same arguments, or with --undo to keep using this database", e.Address, e.Peer, since)
	}
	return fmt.Sprintf("the ledgers of the database %s were moved to %s at %s; use them at the new location. To move the ledgers back, run colophon migrate --undo with the same arguments if nothing has been written at the new location; otherwise, run colophon migrate in the opposite direction",
		e.Address, e.Peer, since)
}

// migrationLockName is the name under which the MigrationLock is stored as a database-wide value.
const migrationLockName = "move"

// notMigrating is the SQL condition under which a ledger can be taken over or created: no migration
// has locked the database.
const notMigrating = `NOT EXISTS (SELECT 1 FROM colophon_shared WHERE name = '` + migrationLockName + `')`

// MigrationLock returns the note left by the migration that has locked the database, or the zero MigrationLock if
// there is none.
func (d *Database) MigrationLock(ctx context.Context) (MigrationLock, error) {
	var m MigrationLock
	text, stored, err := d.Value(ctx, migrationLockName)
	if err == nil && stored > 0 {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return MigrationLock{}, fmt.Errorf("checking whether a migration has locked the database: %w", err)
	}
	return m, nil
}

// SetMigrationLock durably stores m as the database's migration lock. After that, only a process
// that opened the database with Config.IgnoreMigrationLock can write to it. The zero MigrationLock unlocks
// the database.
func (d *Database) SetMigrationLock(ctx context.Context, m MigrationLock) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	err = d.change(ctx, func(conn *pgx.Conn) error {
		if m == (MigrationLock{}) {
			_, err := conn.Exec(ctx, `DELETE FROM colophon_shared WHERE name = $1`, migrationLockName)
			return err
		}
		_, err := conn.Exec(ctx, `INSERT INTO colophon_shared (name, version, value) VALUES ($1, 1, $2)
			ON CONFLICT (name) DO UPDATE SET version = colophon_shared.version + 1, value = excluded.value`, migrationLockName, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("setting the migration state to %q: %w", m.State, err)
	}
	return nil
}

// checkMigrationLock returns a *MigrationLockError if a migration has locked the database, unless
// the database was opened with Config.IgnoreMigrationLock. With Config.ReadOnly, it returns the
// error only while ledgers are still being copied into the database.
func (d *Database) checkMigrationLock(ctx context.Context) error {
	if d.config.IgnoreMigrationLock {
		return nil
	}
	m, err := d.MigrationLock(ctx)
	if err != nil {
		return err
	}
	if m.State == "" || d.config.ReadOnly && m.State != MigrationArriving { // the ledgers here are complete, so they can be read
		return nil
	}
	return &MigrationLockError{MigrationLock: m, Address: d.Address()}
}

// CheckOwnership returns an error if another process has taken over one of the ledgers that this
// process has opened.
func (d *Database) CheckOwnership(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.ledgers {
		var row headRow
		if err := d.row(ctx, row.values(), selectHead, l.number); err != nil {
			return fmt.Errorf("reading the writer of ledger %q: %w", l.name, err)
		}
		if row.epoch != l.epoch {
			return fmt.Errorf("checking the writer of ledger %q: %w", l.name, errTakenOver)
		}
	}
	return nil
}

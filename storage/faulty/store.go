package faulty

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/storage"
)

// StoreCallNames returns the names of all calls to storage.Reader, Store, Archiver, and Database
// that a Plan can make fail.
func StoreCallNames() []string {
	return []string{"Head", "Tile", "Entry", "Entries", "Content", "References", "HasReference", "Redaction",
		"Redactions", "Key", "Keys", "Setting", "Info", "Commit", "Freeze", "SetSetting", "CheckWritable", "Archive", "Ledgers", "Ledger", "Create"}
}

// errChecksum is the error from a read in mode ModeFlipBit.
var errChecksum = errors.New("checksum mismatch")

// failure returns the error of a call that fails in the given mode. The error is nil if mode is "".
func failure(call string, mode Mode) error {
	switch mode {
	case "":
		return nil
	case ModeNoSpace:
		return fmt.Errorf("%s: %w", call, storage.ErrNoSpace)
	case ModeFlipBit:
		return fmt.Errorf("%s: %w: %w", call, errChecksum, ErrInjected)
	}
	return fmt.Errorf("%s: %w", call, ErrInjected)
}

// read performs a read-only call by calling done, unless the plan makes the call fail.
func read[T any](f *Injector, call string, done func() (T, error)) (T, error) {
	if err := failure(call, f.next(call, "")); err != nil {
		var none T
		return none, err
	}
	return done()
}

// change performs a call that writes by calling done. If the plan makes the call fail, change
// returns an error without calling done. In mode ModeFailAfterSuccess, change calls done first.
func change(f *Injector, call string, done func() error) error {
	mode := f.next(call, "")
	err := failure(call, mode)
	if err != nil && mode != ModeFailAfterSuccess {
		return err
	}
	if failed := done(); failed != nil {
		return failed
	}
	return err
}

// walk yields the items of all, unless the plan makes the call fail. In mode ModeShortWrite, the
// call fails after the first item. In any other mode, it fails at once.
func walk[T any](f *Injector, call string, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		mode := f.next(call, "")
		failed := failure(call, mode)
		var none T
		if failed != nil && mode != ModeShortWrite {
			yield(none, failed)
			return
		}
		for item, err := range all {
			if !yield(item, err) {
				return
			}
			if failed != nil {
				yield(none, failed)
				return
			}
		}
	}
}

// Database injects faults into calls to a database and to its stores.
type Database struct {
	under  storage.Database
	faults *Injector
}

var _ storage.Database = (*Database)(nil)

// NewDatabase returns a database that forwards all calls to under, unless faults makes them fail.
func NewDatabase(under storage.Database, faults *Injector) *Database { return &Database{under, faults} }

// Ledgers implements storage.Database.
func (d *Database) Ledgers(ctx context.Context) ([]storage.LedgerInfo, error) {
	return read(d.faults, "Ledgers", func() ([]storage.LedgerInfo, error) { return d.under.Ledgers(ctx) })
}

// Ledger implements storage.Database.
func (d *Database) Ledger(ctx context.Context, name string) (storage.Store, error) {
	return read(d.faults, "Ledger", func() (storage.Store, error) { return d.wrap(d.under.Ledger(ctx, name)) })
}

// CreateLedger implements storage.Database.
func (d *Database) CreateLedger(ctx context.Context, info storage.LedgerInfo) (created storage.Store, err error) {
	err = change(d.faults, "Create", func() (err error) {
		created, err = d.wrap(d.under.CreateLedger(ctx, info))
		return err
	})
	if err != nil {
		return nil, err
	}
	return created, nil
}

func (d *Database) wrap(under storage.Store, err error) (storage.Store, error) {
	if err != nil {
		return nil, err
	}
	return &store{under, d.faults}, nil
}

// Close implements storage.Database. No plan makes it fail.
func (d *Database) Close() error { return d.under.Close() }

// store injects faults into calls to a ledger's store.
type store struct {
	under  storage.Store
	faults *Injector
}

// Head implements storage.Reader.
func (s *store) Head(ctx context.Context) (storage.Head, error) {
	return read(s.faults, "Head", func() (storage.Head, error) { return s.under.Head(ctx) })
}

// Tile implements storage.Reader.
func (s *store) Tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	return read(s.faults, "Tile", func() ([]byte, error) { return s.under.Tile(ctx, level, index) })
}

// Entry implements storage.Reader.
func (s *store) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	return read(s.faults, "Entry", func() ([]byte, error) { return s.under.Entry(ctx, seq) })
}

// Entries implements storage.Reader.
func (s *store) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return walk(s.faults, "Entries", s.under.Entries(ctx, from))
}

// Content implements storage.Reader.
func (s *store) Content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	return read(s.faults, "Content", func() ([]byte, error) { return s.under.Content(ctx, digest) })
}

// References implements storage.Reader.
func (s *store) References(ctx context.Context, digest storage.Hash) iter.Seq2[uint64, error] {
	return walk(s.faults, "References", s.under.References(ctx, digest))
}

// HasReference implements storage.Reader.
func (s *store) HasReference(ctx context.Context, digest storage.Hash, seq uint64) (bool, error) {
	return read(s.faults, "HasReference", func() (bool, error) { return s.under.HasReference(ctx, digest, seq) })
}

// RedactingSeq implements storage.Reader.
func (s *store) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	return read(s.faults, "Redaction", func() (uint64, error) { return s.under.RedactingSeq(ctx, seq) })
}

// Redactions implements storage.Reader.
func (s *store) Redactions(ctx context.Context) iter.Seq2[storage.Redaction, error] {
	return walk(s.faults, "Redactions", s.under.Redactions(ctx))
}

// KeyClaim implements storage.Reader.
func (s *store) KeyClaim(ctx context.Context, key storage.Hash) (storage.Claim, error) {
	return read(s.faults, "Key", func() (storage.Claim, error) { return s.under.KeyClaim(ctx, key) })
}

// KeyClaims implements storage.Reader.
func (s *store) KeyClaims(ctx context.Context, keys []storage.Hash) ([]storage.Claim, error) {
	return read(s.faults, "Keys", func() ([]storage.Claim, error) { return s.under.KeyClaims(ctx, keys) })
}

// Setting implements storage.Reader.
func (s *store) Setting(ctx context.Context, name string) ([]byte, error) {
	return read(s.faults, "Setting", func() ([]byte, error) { return s.under.Setting(ctx, name) })
}

// Info implements storage.Store.
func (s *store) Info(ctx context.Context) (storage.LedgerInfo, error) {
	return read(s.faults, "Info", func() (storage.LedgerInfo, error) { return s.under.Info(ctx) })
}

// Commit implements storage.Store.
func (s *store) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	return change(s.faults, "Commit", func() error { return s.under.Commit(ctx, old, b) })
}

// Freeze implements storage.Store.
func (s *store) Freeze(ctx context.Context) error {
	return change(s.faults, "Freeze", func() error { return s.under.Freeze(ctx) })
}

// SetSetting implements storage.Store.
func (s *store) SetSetting(ctx context.Context, name string, value []byte) error {
	return change(s.faults, "SetSetting", func() error { return s.under.SetSetting(ctx, name, value) })
}

// Archive implements storage.Archiver.
func (s *store) Archive(ctx context.Context, a storage.ArchivedRange, keep []uint64) error {
	return change(s.faults, "Archive", func() error {
		archiver, can := s.under.(storage.Archiver)
		if !can {
			return errors.New("the store does not support archiving")
		}
		return archiver.Archive(ctx, a, keep)
	})
}

// CheckWritable implements storage.Store.
func (s *store) CheckWritable(ctx context.Context) error {
	return change(s.faults, "CheckWritable", func() error { return s.under.CheckWritable(ctx) })
}

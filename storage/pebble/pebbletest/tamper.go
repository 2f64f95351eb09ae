// Package pebbletest lets tests do to a database of storage/pebble what only
// accidents and attackers do: change it behind the contract's back, with
// checksums that are right, and cut its power.
package pebbletest

import (
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// Tamper changes the stored bytes of one ledger. Every change is durable when
// its method returns.
type Tamper struct {
	engine *engine.DB
	ledger keys.Ledger
}

// OpenTamper opens the ledger of that name in a database that nobody else has
// open. A nil file system is the operating system's.
func OpenTamper(files vfs.FS, dir, ledger string) (*Tamper, error) {
	if files == nil {
		files = vfs.Default
	}
	db, err := engine.Open(dir, &engine.Options{FS: files, ErrorIfNotExists: true, Logger: silent{}})
	if err != nil {
		return nil, fmt.Errorf("opening %s to tamper with it: %w", dir, err)
	}
	t := &Tamper{engine: db}
	stored, err := t.get(keys.Name(ledger))
	if err == nil {
		var number uint32
		number, err = keys.DecodeNumber(stored)
		t.ledger = keys.Ledger(number)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("finding ledger %q: %w", ledger, err), db.Close())
	}
	return t, nil
}

// Close lets go of the database, which can be opened as usual then.
func (t *Tamper) Close() error { return t.engine.Close() }

func (t *Tamper) get(key []byte) ([]byte, error) {
	value, closer, err := t.engine.Get(key)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, storage.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	kept := append([]byte{}, value...)
	return kept, closer.Close()
}

func (t *Tamper) set(key, value []byte) error { return t.engine.Set(key, value, engine.Sync) }

func (t *Tamper) delete(key []byte) error { return t.engine.Delete(key, engine.Sync) }

// Entry replaces or adds the entry at seq; the head stays.
func (t *Tamper) Entry(seq uint64, b []byte) error {
	return t.set(keys.AppendEntry(nil, t.ledger, seq), b)
}

// DeleteEntry takes the entry at seq away.
func (t *Tamper) DeleteEntry(seq uint64) error {
	return t.delete(keys.AppendEntry(nil, t.ledger, seq))
}

// Tile replaces a hash tile.
func (t *Tamper) Tile(level uint8, index uint64, hashes []byte) error {
	return t.set(keys.AppendTile(nil, t.ledger, level, index), hashes)
}

// DeleteTile takes a hash tile away.
func (t *Tamper) DeleteTile(level uint8, index uint64) error {
	return t.delete(keys.AppendTile(nil, t.ledger, level, index))
}

// Head replaces the head.
func (t *Tamper) Head(h storage.Head) error {
	return t.set(keys.Head(t.ledger), keys.AppendHead(nil, h))
}

// DeleteHead takes the head away.
func (t *Tamper) DeleteHead() error { return t.delete(keys.Head(t.ledger)) }

// Content replaces the bytes under a digest that the ledger holds;
// storage.ErrNotFound if it does not.
func (t *Tamper) Content(digest storage.Hash, b []byte) error {
	holding, err := t.holding(digest)
	if err != nil {
		return err
	}
	return t.set(keys.AppendContent(nil, t.ledger, holding.Place), b)
}

// DeleteContent takes the bytes under a digest away, as if they had never come;
// storage.ErrNotFound if the ledger does not hold them.
func (t *Tamper) DeleteContent(digest storage.Hash) error {
	if err := t.LoseBytes(digest); err != nil {
		return err
	}
	start, end := keys.HoldingRange(t.ledger, digest)
	return t.engine.DeleteRange(start, end, engine.Sync)
}

// LoseBytes takes the bytes under a digest away and leaves their place standing.
func (t *Tamper) LoseBytes(digest storage.Hash) error {
	holding, err := t.holding(digest)
	if err != nil {
		return err
	}
	return t.delete(keys.AppendContent(nil, t.ledger, holding.Place))
}

// Key replaces or adds a claim.
func (t *Tamper) Key(k storage.Key) error {
	return t.set(keys.AppendClaim(nil, t.ledger, k.Key), keys.AppendClaimValue(nil, k))
}

// Redaction replaces or adds the word that by redacted the record at seq; no
// content changes.
func (t *Tamper) Redaction(seq, by uint64) error {
	return t.set(keys.AppendRedaction(nil, t.ledger, seq), keys.Seq(by))
}

// DeleteRedaction takes that word away.
func (t *Tamper) DeleteRedaction(seq uint64) error {
	return t.delete(keys.AppendRedaction(nil, t.ledger, seq))
}

// DeleteReference takes away that the record at seq needs the content;
// storage.ErrNotFound if the ledger does not hold it.
func (t *Tamper) DeleteReference(digest storage.Hash, seq uint64) error {
	holding, err := t.holding(digest)
	if err != nil {
		return err
	}
	if holding.Seq == seq {
		holding.Withdrawn = true
		return t.set(keys.AppendPlace(nil, t.ledger, digest), keys.AppendHolding(nil, holding))
	}
	return t.delete(keys.AppendReference(nil, t.ledger, digest, seq))
}

// FormatVersion replaces the format version of the whole database.
func (t *Tamper) FormatVersion(version uint32) error {
	return t.set(keys.Format(), keys.Number(version))
}

func (t *Tamper) holding(digest storage.Hash) (keys.Holding, error) {
	stored, err := t.get(keys.AppendPlace(nil, t.ledger, digest))
	if err != nil {
		return keys.Holding{}, fmt.Errorf("content %x: %w", digest, err)
	}
	return keys.DecodeHolding(stored)
}

// silent drops the engine's commentary; what fails ends the test.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic("pebbletest: " + fmt.Sprintf(format, args...))
}

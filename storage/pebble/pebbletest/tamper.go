// Package pebbletest lets tests damage a database of storage/pebble as an accident or an attacker
// could: by changing bytes while keeping checksums correct, or by cutting the power.
package pebbletest

import (
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// Tamperer changes the stored bytes of one ledger. Every change is durable when its method
// returns.
type Tamperer struct {
	engine *engine.DB
	ledger keys.LedgerNumber
}

// OpenTamperer opens a ledger of a database for tampering. The database must not be open elsewhere.
// A nil files means the operating system's file system.
func OpenTamperer(files vfs.FS, dir, ledger string) (*Tamperer, error) {
	if files == nil {
		files = vfs.Default
	}
	db, err := engine.Open(dir, &engine.Options{FS: files, ErrorIfNotExists: true, Logger: silent{}})
	if err != nil {
		return nil, fmt.Errorf("opening %s to tamper with it: %w", dir, err)
	}
	t := &Tamperer{engine: db}
	stored, err := t.get(keys.NameKey(ledger))
	if err == nil {
		var number uint32
		number, err = keys.DecodeNumber(stored)
		t.ledger = keys.LedgerNumber(number)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("finding ledger %q: %w", ledger, err), db.Close())
	}
	return t, nil
}

// Close closes the database. It can then be opened as usual.
func (t *Tamperer) Close() error { return t.engine.Close() }

func (t *Tamperer) get(key []byte) ([]byte, error) {
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

func (t *Tamperer) set(key, value []byte) error { return t.engine.Set(key, value, engine.Sync) }

func (t *Tamperer) delete(key []byte) error { return t.engine.Delete(key, engine.Sync) }

// SetEntry replaces or adds the entry at seq. It does not change the head.
func (t *Tamperer) SetEntry(seq uint64, b []byte) error {
	return t.set(keys.AppendEntryKey(nil, t.ledger, seq), b)
}

// DeleteEntry deletes the entry at seq.
func (t *Tamperer) DeleteEntry(seq uint64) error {
	return t.delete(keys.AppendEntryKey(nil, t.ledger, seq))
}

// SetTile replaces or adds a hash tile.
func (t *Tamperer) SetTile(level uint8, index uint64, hashes []byte) error {
	return t.set(keys.AppendTileKey(nil, t.ledger, level, index), hashes)
}

// DeleteTile deletes a hash tile.
func (t *Tamperer) DeleteTile(level uint8, index uint64) error {
	return t.delete(keys.AppendTileKey(nil, t.ledger, level, index))
}

// SetHead replaces or adds the head.
func (t *Tamperer) SetHead(h storage.Head) error {
	return t.set(keys.HeadKey(t.ledger), keys.AppendHeadValue(nil, h))
}

// DeleteHead deletes the head.
func (t *Tamperer) DeleteHead() error { return t.delete(keys.HeadKey(t.ledger)) }

// SetContent replaces the bytes stored under a digest. It returns storage.ErrNotFound if the ledger
// does not have the content.
func (t *Tamperer) SetContent(digest storage.Hash, b []byte) error {
	holding, err := t.holding(digest)
	if err != nil {
		return err
	}
	return t.set(keys.AppendContentKey(nil, t.ledger, holding.Location), b)
}

// DeleteContent deletes the bytes stored under a digest, their location, and all references to
// them, as if the content had never been posted. It returns storage.ErrNotFound if the ledger does
// not have the content.
func (t *Tamperer) DeleteContent(digest storage.Hash) error {
	if err := t.DeleteContentBytes(digest); err != nil {
		return err
	}
	start, end := keys.DigestRange(t.ledger, digest)
	return t.engine.DeleteRange(start, end, engine.Sync)
}

// DeleteContentBytes deletes the bytes stored under a digest, but keeps their location and the
// references.
func (t *Tamperer) DeleteContentBytes(digest storage.Hash) error {
	holding, err := t.holding(digest)
	if err != nil {
		return err
	}
	return t.delete(keys.AppendContentKey(nil, t.ledger, holding.Location))
}

// SetClaim replaces or adds the claim of an idempotency key.
func (t *Tamperer) SetClaim(k storage.Claim) error {
	return t.set(keys.AppendClaimKey(nil, t.ledger, k.KeyDigest), keys.AppendClaimValue(nil, k))
}

// SetRedaction marks the record at seq as redacted by the event whose seq is by. It erases no
// content.
func (t *Tamperer) SetRedaction(seq, by uint64) error {
	return t.set(keys.AppendRedactionKey(nil, t.ledger, seq), keys.EncodeSeq(by))
}

// DeleteRedaction deletes the redaction of the record at seq.
func (t *Tamperer) DeleteRedaction(seq uint64) error {
	return t.delete(keys.AppendRedactionKey(nil, t.ledger, seq))
}

// DeleteReference makes the ledger forget that the record at seq needs a piece of content. It
// returns storage.ErrNotFound if the ledger does not have the content.
func (t *Tamperer) DeleteReference(digest storage.Hash, seq uint64) error {
	holding, err := t.holding(digest)
	if err != nil {
		return err
	}
	if holding.Seq == seq {
		holding.Redacted = true
		return t.set(keys.AppendLocationKey(nil, t.ledger, digest), keys.AppendLocationValue(nil, holding))
	}
	return t.delete(keys.AppendReferenceKey(nil, t.ledger, digest, seq))
}

// SetFormatVersion replaces the format version of the database.
func (t *Tamperer) SetFormatVersion(version uint32) error {
	return t.set(keys.FormatVersionKey(), keys.EncodeNumber(version))
}

func (t *Tamperer) holding(digest storage.Hash) (keys.LocationValue, error) {
	stored, err := t.get(keys.AppendLocationKey(nil, t.ledger, digest))
	if err != nil {
		return keys.LocationValue{}, fmt.Errorf("finding content %x: %w", digest, err)
	}
	return keys.DecodeLocationValue(stored)
}

// silent is a logger that discards the engine's messages. It panics on a fatal message.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic("pebbletest: " + fmt.Sprintf(format, args...))
}

package memory

import (
	"fmt"
	"slices"

	"colophon/storage"
)

// Tamperer changes the stored data of a ledger, bypassing the checks of the storage contract.
// Changes take effect immediately. It is meant for tests of code that must detect damage.
type Tamperer struct{ ledger *ledger }

// Tamperer returns a Tamperer for the named ledger, or storage.ErrNotFound.
func (d *Database) Tamperer(name string) (*Tamperer, error) {
	l, err := d.ledger(name)
	if err != nil {
		return nil, err
	}
	return &Tamperer{ledger: l}, nil
}

func (t *Tamperer) change(f func(l *ledger)) error {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	f(t.ledger)
	return nil
}

// SetEntry replaces or adds the entry at seq. It does not change the head.
func (t *Tamperer) SetEntry(seq uint64, b []byte) error {
	return t.change(func(l *ledger) { l.entries[seq] = clone(b) })
}

// DeleteEntry deletes the entry at seq.
func (t *Tamperer) DeleteEntry(seq uint64) error {
	return t.change(func(l *ledger) { delete(l.entries, seq) })
}

// SetTile replaces or adds a hash tile.
func (t *Tamperer) SetTile(level uint8, index uint64, hashes []byte) error {
	return t.change(func(l *ledger) { l.tiles[tileKey{level, index}] = clone(hashes) })
}

// DeleteTile deletes a hash tile.
func (t *Tamperer) DeleteTile(level uint8, index uint64) error {
	return t.change(func(l *ledger) { delete(l.tiles, tileKey{level, index}) })
}

// SetHead replaces the head.
func (t *Tamperer) SetHead(h storage.Head) error {
	return t.change(func(l *ledger) { l.head = copyHead(h) })
}

// SetContent replaces the bytes stored under a digest. It returns storage.ErrNotFound if the ledger
// does not have the content.
func (t *Tamperer) SetContent(digest storage.Hash, b []byte) error {
	return t.changeContent(digest, func(l *ledger) { l.contents[digest].bytes = clone(b) })
}

// DeleteContent deletes the content with the given digest, as if it had never been stored. It
// returns storage.ErrNotFound if the ledger does not have the content.
func (t *Tamperer) DeleteContent(digest storage.Hash) error {
	return t.changeContent(digest, func(l *ledger) { delete(l.contents, digest) })
}

func (t *Tamperer) changeContent(digest storage.Hash, f func(l *ledger)) error {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if _, held := t.ledger.contents[digest]; !held {
		return fmt.Errorf("finding content %x: %w", digest, storage.ErrNotFound)
	}
	f(t.ledger)
	return nil
}

// SetRedaction marks the record at seq as redacted by the event whose seq is by. It does not change
// the record's content.
func (t *Tamperer) SetRedaction(seq, by uint64) error {
	return t.change(func(l *ledger) { l.redactions[seq] = by })
}

// DeleteRedaction deletes the redaction of the record at seq.
func (t *Tamperer) DeleteRedaction(seq uint64) error {
	return t.change(func(l *ledger) { delete(l.redactions, seq) })
}

// DeleteReference makes the ledger forget that the record at seq needs the content with the given
// digest. It returns storage.ErrNotFound if the ledger does not have the content.
func (t *Tamperer) DeleteReference(digest storage.Hash, seq uint64) error {
	return t.changeContent(digest, func(l *ledger) {
		held := l.contents[digest]
		held.references = slices.DeleteFunc(held.references, func(s uint64) bool { return s == seq })
	})
}

// SetClaim replaces or adds the claim of an idempotency key.
func (t *Tamperer) SetClaim(k storage.Claim) error {
	return t.change(func(l *ledger) { l.keys[k.KeyDigest] = k })
}

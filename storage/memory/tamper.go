package memory

import (
	"fmt"
	"slices"

	"colophon/storage"
)

// Tamper changes stored data of a ledger without the checks of the storage contract. Changes take
// effect at once. It is for tests of code that must detect damage.
type Tamper struct{ ledger *ledger }

// Tamper returns a Tamper for the named ledger, or storage.ErrNotFound.
func (d *Database) Tamper(name string) (*Tamper, error) {
	l, err := d.ledger(name)
	if err != nil {
		return nil, err
	}
	return &Tamper{ledger: l}, nil
}

func (t *Tamper) change(f func(l *ledger)) error {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	f(t.ledger)
	return nil
}

// SetEntry replaces or adds the entry at seq. It does not change the head.
func (t *Tamper) SetEntry(seq uint64, b []byte) error {
	return t.change(func(l *ledger) { l.entries[seq] = clone(b) })
}

// DeleteEntry deletes the entry at seq.
func (t *Tamper) DeleteEntry(seq uint64) error {
	return t.change(func(l *ledger) { delete(l.entries, seq) })
}

// SetTile replaces or adds a hash tile.
func (t *Tamper) SetTile(level uint8, index uint64, hashes []byte) error {
	return t.change(func(l *ledger) { l.tiles[tileKey{level, index}] = clone(hashes) })
}

// DeleteTile deletes a hash tile.
func (t *Tamper) DeleteTile(level uint8, index uint64) error {
	return t.change(func(l *ledger) { delete(l.tiles, tileKey{level, index}) })
}

// SetHead replaces the head.
func (t *Tamper) SetHead(h storage.Head) error {
	return t.change(func(l *ledger) { l.head = copyHead(h) })
}

// SetContent replaces the bytes stored under a digest. It returns storage.ErrNotFound if the ledger
// does not have the content.
func (t *Tamper) SetContent(digest storage.Hash, b []byte) error {
	return t.changeContent(digest, func(l *ledger) { l.contents[digest].bytes = clone(b) })
}

// DeleteContent deletes the content with the given digest, as if it had never been stored. It
// returns storage.ErrNotFound if the ledger does not have the content.
func (t *Tamper) DeleteContent(digest storage.Hash) error {
	return t.changeContent(digest, func(l *ledger) { delete(l.contents, digest) })
}

func (t *Tamper) changeContent(digest storage.Hash, f func(l *ledger)) error {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if _, held := t.ledger.contents[digest]; !held {
		return fmt.Errorf("content %x: %w", digest, storage.ErrNotFound)
	}
	f(t.ledger)
	return nil
}

// SetRedaction stores that the event by redacted the record at seq, but changes no content.
func (t *Tamper) SetRedaction(seq, by uint64) error {
	return t.change(func(l *ledger) { l.redactions[seq] = by })
}

// DeleteRedaction deletes the redaction of the record at seq.
func (t *Tamper) DeleteRedaction(seq uint64) error {
	return t.change(func(l *ledger) { delete(l.redactions, seq) })
}

// DeleteReference makes the ledger forget that the record at seq needs the content. It returns
// storage.ErrNotFound if the ledger does not have the content.
func (t *Tamper) DeleteReference(digest storage.Hash, seq uint64) error {
	return t.changeContent(digest, func(l *ledger) {
		held := l.contents[digest]
		held.references = slices.DeleteFunc(held.references, func(s uint64) bool { return s == seq })
	})
}

// SetKey replaces or adds the claim of an idempotency key.
func (t *Tamper) SetKey(k storage.Key) error {
	return t.change(func(l *ledger) { l.keys[k.Key] = k })
}

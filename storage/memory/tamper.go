package memory

import (
	"fmt"
	"slices"

	"colophon/storage"
)

// Tamper changes what a ledger holds without the checks of the contract. It is for tests of code
// that must detect such changes.
type Tamper struct{ ledger *ledger }

// Tamper is the handle for the ledger of that name; storage.ErrNotFound if
// there is none.
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

// Entry replaces or adds the entry at seq; the head stays.
func (t *Tamper) Entry(seq uint64, b []byte) error {
	return t.change(func(l *ledger) { l.entries[seq] = clone(b) })
}

// DeleteEntry takes the entry at seq away.
func (t *Tamper) DeleteEntry(seq uint64) error {
	return t.change(func(l *ledger) { delete(l.entries, seq) })
}

// Tile replaces a hash tile.
func (t *Tamper) Tile(level uint8, index uint64, hashes []byte) error {
	return t.change(func(l *ledger) { l.tiles[tileKey{level, index}] = clone(hashes) })
}

// DeleteTile takes a hash tile away.
func (t *Tamper) DeleteTile(level uint8, index uint64) error {
	return t.change(func(l *ledger) { delete(l.tiles, tileKey{level, index}) })
}

// Head replaces the head.
func (t *Tamper) Head(h storage.Head) error {
	return t.change(func(l *ledger) { l.head = copyHead(h) })
}

// Content replaces the bytes under a digest that the ledger holds;
// storage.ErrNotFound if it does not.
func (t *Tamper) Content(digest storage.Hash, b []byte) error {
	return t.changeContent(digest, func(l *ledger) { l.contents[digest].bytes = clone(b) })
}

// DeleteContent takes the bytes under a digest away, as if they had never come;
// storage.ErrNotFound if the ledger does not hold them.
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

// Redaction replaces or adds the word that by redacted the record at seq; no
// content changes.
func (t *Tamper) Redaction(seq, by uint64) error {
	return t.change(func(l *ledger) { l.redactions[seq] = by })
}

// DeleteRedaction takes that word away.
func (t *Tamper) DeleteRedaction(seq uint64) error {
	return t.change(func(l *ledger) { delete(l.redactions, seq) })
}

// DeleteReference takes away that the record at seq needs the content.
func (t *Tamper) DeleteReference(digest storage.Hash, seq uint64) error {
	return t.changeContent(digest, func(l *ledger) {
		held := l.contents[digest]
		held.references = slices.DeleteFunc(held.references, func(s uint64) bool { return s == seq })
	})
}

// Key replaces or adds a claim.
func (t *Tamper) Key(k storage.Key) error {
	return t.change(func(l *ledger) { l.keys[k.Key] = k })
}

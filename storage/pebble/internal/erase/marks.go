package erase

import (
	"bytes"
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage/pebble/internal/keys"
)

// PendingErasure identifies a piece of content that has been deleted but might still be in files.
type PendingErasure struct {
	key     []byte // database key of the mark itself
	content []byte // database key under which the content was stored
	ledger  keys.LedgerNumber
	keys.Erasure
}

// ForEachPending calls visit for up to most pending erasures, in the order of their content keys.
func ForEachPending(db *engine.DB, most int, visit func(PendingErasure)) (err error) {
	start, end := keys.ErasureRange()
	marks, err := db.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("reading erasure marks: %w", err)
	}
	defer func() { err = errors.Join(err, marks.Close()) }()
	for ok := marks.First(); ok && most > 0; ok = marks.Next() {
		value, err := marks.ValueAndErr()
		if err != nil {
			return fmt.Errorf("reading erasure marks: %w", err)
		}
		m := PendingErasure{key: bytes.Clone(marks.Key())}
		if m.content, m.ledger, ok = keys.ErasureContentKey(m.key); !ok {
			return fmt.Errorf("reading erasure marks: a mark has an invalid key of %d bytes", len(m.key))
		}
		if m.Erasure, err = keys.DecodeErasure(value); err != nil {
			return fmt.Errorf("reading erasure marks: %w", err)
		}
		visit(m)
		most--
	}
	return marks.Error()
}

// unmark removes the marks durably, in one batch.
func (e *Eraser) unmark(marks []PendingErasure) error {
	b := e.engine.NewBatch()
	for _, m := range marks {
		if err := b.Delete(m.key, nil); err != nil {
			return fmt.Errorf("removing erasure marks: %w", errors.Join(err, b.Close()))
		}
	}
	if err := b.Commit(e.Config.WriteOptions); err != nil {
		return fmt.Errorf("removing erasure marks: %w", err)
	}
	return b.Close()
}

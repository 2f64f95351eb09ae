package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage/pebble/internal/keys"
)

// mark states that a piece of content is deleted but may still be in files.
type mark struct {
	key     []byte // key of the mark
	content []byte // key of the content
	ledger  keys.Ledger
	keys.Erasure
}

// eachMark visits at most that many marks, in the order of the contents' keys.
func (d *Database) eachMark(most int, visit func(mark)) (err error) {
	start, end := keys.Erasures()
	marks, err := d.engine.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("looking for erased content: %w", err)
	}
	defer func() { err = errors.Join(err, marks.Close()) }()
	for ok := marks.First(); ok && most > 0; ok = marks.Next() {
		value, err := marks.ValueAndErr()
		if err != nil {
			return fmt.Errorf("looking for erased content: %w", err)
		}
		m := mark{key: bytes.Clone(marks.Key())}
		if m.content, m.ledger, ok = keys.ErasureContent(m.key); !ok {
			return fmt.Errorf("looking for erased content: mark of %d bytes", len(m.key))
		}
		if m.Erasure, err = keys.DecodeErasure(value); err != nil {
			return fmt.Errorf("looking for erased content: %w", err)
		}
		visit(m)
		most--
	}
	return marks.Error()
}

// unmark removes marks, durably.
func (d *Database) unmark(marks []mark) error {
	c := newChange(d.engine, 0)
	for _, m := range marks {
		c.delete(m.key)
	}
	if err := c.commit(d.durability); err != nil {
		return fmt.Errorf("noting that content is gone: %w", err)
	}
	return nil
}

// Erasing describes erased content that may still be in files of the database.
type Erasing struct {
	Pieces int       // number of contents
	Oldest time.Time // when the oldest of them was erased, UTC; zero if Pieces is 0
}

// Erasing counts the erased content that is still in files. An erasure takes seconds; if one
// takes longer, the log says why.
func (d *Database) Erasing(ctx context.Context) (Erasing, error) {
	if err := d.usable(ctx); err != nil {
		return Erasing{}, fmt.Errorf("counting erased content: %w", err)
	}
	return d.erasing()
}

func (d *Database) erasing() (Erasing, error) {
	var e Erasing
	err := d.eachMark(math.MaxInt, func(m mark) {
		if at := time.UnixMicro(m.Time).UTC(); e.Pieces == 0 || at.Before(e.Oldest) {
			e.Oldest = at
		}
		e.Pieces++
	})
	return e, err
}

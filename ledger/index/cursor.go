package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// cursor is how far a ledger is folded. It is stored in the same batch as the
// keys that bring the index there.
type cursor struct {
	size uint64       // number of events folded
	tip  storage.Hash // event_hash of the last; zero bytes when there is none
}

// append encodes a cursor. An index that is unfinished has none that can be decoded.
func (c cursor) append(dst []byte, unfinished bool) []byte {
	dst = append(rowstore.AppendSeq(dst, c.size), c.tip[:]...)
	if unfinished {
		dst = append(dst, 1)
	}
	return dst
}

// decodeCursor decodes what append wrote of a cursor that has events.
func decodeCursor(value []byte) (cursor, error) {
	var c cursor
	switch len(value) {
	case 8 + len(c.tip):
	case 8 + len(c.tip) + 1:
		return cursor{}, errors.New("building it anew was cut short")
	default:
		return cursor{}, fmt.Errorf("%d bytes", len(value))
	}
	if c.size = binary.BigEndian.Uint64(value); c.size == 0 {
		return cursor{}, errors.New("no events")
	}
	copy(c.tip[:], value[8:])
	return c, nil
}

// readCursor is the cursor of a ledger as it is stored; zero if there is none.
func readCursor(from interface {
	Stored(key []byte) ([]byte, bool, error)
}, keys rowstore.Keyspace) (cursor, error) {
	value, found, err := from.Stored(keys.Key(nil, cursorDimension))
	if err != nil {
		return cursor{}, fmt.Errorf("reading the index's cursor: %w", err)
	}
	if !found {
		return cursor{}, nil
	}
	c, err := decodeCursor(value)
	if err != nil {
		return cursor{}, fmt.Errorf("%w: its cursor: %w", rowstore.ErrDamaged, err)
	}
	return c, nil
}

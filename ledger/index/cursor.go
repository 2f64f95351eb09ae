package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// cursor is the position up to which a ledger is folded. Each batch stores the cursor that is
// valid after the batch.
type cursor struct {
	size uint64       // number of events folded
	tip  storage.Hash // event_hash of the last event; zero if there is none
	// partial means that some rows of the next event are stored too (see ErrBatchFull).
	partial bool
}

// An encoded cursor can end with one of these bytes.
const (
	unfinishedMark = 1 // the index is still being rebuilt
	partialMark    = 2 // partial is set
)

// append appends the encoding of a cursor. If unfinished is true, decodeCursor will reject the
// cursor, because the index is still being rebuilt.
func (c cursor) append(dst []byte, unfinished bool) []byte {
	dst = append(rowstore.AppendSeq(dst, c.size), c.tip[:]...)
	switch {
	case unfinished:
		dst = append(dst, unfinishedMark)
	case c.partial:
		dst = append(dst, partialMark)
	}
	return dst
}

// decodeCursor decodes a stored cursor. It returns an error if the rebuild of the index was not
// finished, or if the cursor covers no events.
func decodeCursor(value []byte) (cursor, error) {
	var c cursor
	const length = 8 + len(c.tip)
	switch {
	case len(value) == length:
	case len(value) == length+1 && value[length] == partialMark:
		c.partial = true
	case len(value) == length+1:
		return cursor{}, errors.New("a rebuild of the index was interrupted")
	default:
		return cursor{}, fmt.Errorf("the cursor has an invalid length of %d bytes", len(value))
	}
	if c.size = binary.BigEndian.Uint64(value); c.size == 0 {
		return cursor{}, errors.New("the index covers no events")
	}
	copy(c.tip[:], value[8:])
	return c, nil
}

// readCursor returns the stored cursor of a ledger, or the zero cursor if there is none.
func readCursor(from interface {
	GetStored(key []byte) ([]byte, bool, error)
}, keys rowstore.Keyspace) (cursor, error) {
	value, found, err := from.GetStored(keys.AppendPrefix(nil, cursorDimension))
	if err != nil {
		return cursor{}, fmt.Errorf("reading the index's cursor: %w", err)
	}
	if !found {
		return cursor{}, nil
	}
	c, err := decodeCursor(value)
	if err != nil {
		return cursor{}, fmt.Errorf("%w: decoding the cursor: %w", rowstore.ErrDamaged, err)
	}
	return c, nil
}

package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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

// appendName encodes a counter's name: its metric, and each label behind its
// length.
func (s series) appendName(dst []byte) []byte {
	dst = append(dst, byte(s.metric))
	for _, l := range s.labels[:len(metrics[s.metric].labels)] {
		dst = binary.AppendUvarint(dst, uint64(len(l)))
		dst = append(dst, l...)
	}
	return dst
}

// decodeSeries decodes what appendName wrote.
func decodeSeries(name []byte) (series, error) {
	if len(name) == 0 || metric(name[0]) >= metricCount {
		return series{}, fmt.Errorf("%w: a counter named %x", rowstore.ErrDamaged, name)
	}
	s, rest := series{metric: metric(name[0])}, name[1:]
	for i := range metrics[s.metric].labels {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return series{}, fmt.Errorf("%w: a counter named %x", rowstore.ErrDamaged, name)
		}
		s.labels[i] = string(rest[n : n+int(size)])
		rest = rest[n+int(size):]
	}
	return s, nil
}

// readCounts are the counters of a ledger as they are stored.
func readCounts(from *rowstore.Rows) (counts, error) {
	prefix := from.Keys.Key(nil, counterDimension)
	it, err := from.Iterate(prefix, from.Keys.Key(nil, counterDimension+1))
	if err != nil {
		return nil, err
	}
	c := newCounts()
	for it.First(); it.Valid(); it.Next() {
		s, err := decodeSeries(slices.Clone(it.Key()[len(prefix):]))
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		encoded, err := it.Value()
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		value, err := rowstore.DecodeSeq(encoded)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", rowstore.ErrDamaged, err), it.Close())
		}
		c[s] = value
	}
	return c, errors.Join(it.Error(), it.Close())
}

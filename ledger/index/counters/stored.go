package counters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger/index/rowstore"
)

// appendName appends the stored form of a counter's name to dst. It consists of the metric,
// followed by the length and text of each label.
func (s Series) appendName(dst []byte) []byte {
	dst = append(dst, byte(s.Metric))
	for _, l := range s.Labels[:len(Metrics[s.Metric].Labels)] {
		dst = binary.AppendUvarint(dst, uint64(len(l)))
		dst = append(dst, l...)
	}
	return dst
}

// decodeSeries decodes a name that appendName wrote.
func decodeSeries(name []byte) (Series, error) {
	if len(name) == 0 || Metric(name[0]) >= metricCount {
		return Series{}, fmt.Errorf("%w: invalid counter name %x", rowstore.ErrDamaged, name)
	}
	s, rest := Series{Metric: Metric(name[0])}, name[1:]
	for i := range Metrics[s.Metric].Labels {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return Series{}, fmt.Errorf("%w: invalid counter name %x", rowstore.ErrDamaged, name)
		}
		s.Labels[i] = string(rest[n : n+int(size)])
		rest = rest[n+int(size):]
	}
	return s, nil
}

// Read returns the stored counters of a ledger. Counters that are in NewCounts(initialSeries) but are
// not stored are 0.
func Read(from *rowstore.Writer, initialSeries []Series) (Counts, error) {
	prefix := from.Keyspace.AppendPrefix(nil, counterDimension)
	it, err := from.NewIterator(prefix, from.Keyspace.AppendPrefix(nil, counterDimension+1))
	if err != nil {
		return nil, err
	}
	c := NewCounts(initialSeries)
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
	return c, errors.Join(it.Err(), it.Close())
}

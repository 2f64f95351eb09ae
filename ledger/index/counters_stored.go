package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger/index/rowstore"
)

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
func readCounts(from *rowstore.Rows, begin []series) (counts, error) {
	prefix := from.Keys.Key(nil, counterDimension)
	it, err := from.Iterate(prefix, from.Keys.Key(nil, counterDimension+1))
	if err != nil {
		return nil, err
	}
	c := newCounts(begin)
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

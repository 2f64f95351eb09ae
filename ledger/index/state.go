package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"colophon/storage"
)

// state is how far a ledger is folded, and what was counted on the way. It is
// stored in the same batch as the keys that bring the index there.
type state struct {
	size   uint64       // number of events folded
	tip    storage.Hash // event_hash of the last; zero bytes when there is none
	counts counts
}

// append encodes s: size, tip, and the counters, each with its metric, labels
// and value, in order, so that equal states are equal bytes.
func (s state) append(dst []byte) []byte {
	dst = appendSeq(dst, s.size)
	dst = append(dst, s.tip[:]...)
	sorted := slices.SortedFunc(maps.Keys(s.counts), func(a, b series) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), slices.Compare(a.labels[:], b.labels[:]))
	})
	for _, c := range sorted {
		dst = append(dst, byte(c.metric))
		for _, l := range c.labels[:len(metrics[c.metric].labels)] {
			dst = binary.AppendUvarint(dst, uint64(len(l)))
			dst = append(dst, l...)
		}
		dst = binary.AppendUvarint(dst, s.counts[c])
	}
	return dst
}

var errTruncated = errors.New("truncated")

// decodeState decodes what append wrote of a state that has events.
func decodeState(value []byte) (state, error) {
	s := state{counts: make(counts)}
	if len(value) < 8+len(s.tip) {
		return state{}, errTruncated
	}
	if s.size = binary.BigEndian.Uint64(value); s.size == 0 {
		return state{}, errors.New("no events")
	}
	rest := value[8+copy(s.tip[:], value[8:]):]
	for len(rest) > 0 {
		c := series{metric: metric(rest[0])}
		if c.metric >= metricCount {
			return state{}, fmt.Errorf("unknown counter %d", c.metric)
		}
		rest = rest[1:]
		for i := range metrics[c.metric].labels {
			size, n := binary.Uvarint(rest)
			if n <= 0 || size > uint64(len(rest)-n) {
				return state{}, errTruncated
			}
			c.labels[i] = string(rest[n : n+int(size)])
			rest = rest[n+int(size):]
		}
		count, n := binary.Uvarint(rest)
		if n <= 0 {
			return state{}, errTruncated
		}
		s.counts[c] = count
		rest = rest[n:]
	}
	return s, nil
}

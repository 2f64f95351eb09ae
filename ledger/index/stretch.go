package index

import (
	"encoding/binary"
	"fmt"
)

// A stretch is consecutive versions of a row in one value, under the key of the oldest:
// rows that nearly every event writes would else be most of all keys. Each version is
// its distance from the one before it, which the oldest does not have, the length of its
// value, and the value.

// stretchBytes: a stretch that has so many bytes takes no further version. It is written
// anew by each batch that adds to it.
const stretchBytes = 400

// row is one version of a row.
type row struct {
	seq   uint64
	value []byte
}

// appendValue appends a value and its length.
func appendValue(dst, value []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}

// stretch reads the versions of a stretch, the oldest first.
type stretch struct {
	row     // the version that it is at
	encoded []byte
	at, end int   // where the version's value begins, with its length, and ends
	err     error // it cannot be a stretch
}

// openStretch is at the oldest version.
func openStretch(first uint64, encoded []byte) stretch {
	s := stretch{row: row{seq: first}, encoded: encoded}
	s.take()
	return s
}

// next goes to the next version, and reports whether there is one.
func (s *stretch) next() bool {
	if s.err != nil || s.end == len(s.encoded) {
		return false
	}
	s.seq += s.number()
	s.take()
	return s.err == nil
}

// take reads the value that begins where the last one ends.
func (s *stretch) take() {
	s.at = s.end
	size := s.number()
	if s.err != nil {
		return
	}
	if size > uint64(len(s.encoded)-s.end) {
		s.fail()
		return
	}
	from := s.end
	s.end += int(size)
	s.value = s.encoded[from:s.end:s.end]
}

func (s *stretch) number() uint64 {
	n, size := binary.Uvarint(s.encoded[s.end:])
	if size <= 0 {
		s.fail()
		return 0
	}
	s.end += size
	return n
}

func (s *stretch) fail() {
	if s.err == nil {
		s.err = fmt.Errorf("%w: versions of a row as %x", errDamaged, s.encoded)
	}
}

// newestUpTo is the newest version of a stretch up to a seq; that of the oldest is not
// above it.
func newestUpTo(seq, first uint64, encoded []byte) (row, error) {
	s := openStretch(first, encoded)
	found := s.row
	for s.next() && s.seq <= seq {
		found = s.row
	}
	return found, s.err
}

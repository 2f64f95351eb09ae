package rowstore

import (
	"encoding/binary"
	"fmt"
)

// A version run is consecutive versions of a row in one value, under the key of the oldest:
// rows that nearly every event writes would else be most of all keys. Each version is
// its distance from the one before it, which the oldest does not have, the length of its
// value, and the value.

// runBytes: a version run that has so many bytes takes no further version. It is written
// again by each batch that adds to it.
const runBytes = 400

// Version is one version of a row.
type Version struct {
	Seq   uint64
	Value []byte
}

// appendValue appends a value and its length.
func appendValue(dst, value []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}

// versionRun reads the versions of a version run, the oldest first.
type versionRun struct {
	Version // the version that it is at
	encoded []byte
	at, end int   // where the version's value begins, with its length, and ends
	err     error // it cannot be a version run
}

// openRun is at the oldest version.
func openRun(first uint64, encoded []byte) versionRun {
	s := versionRun{Version: Version{Seq: first}, encoded: encoded}
	s.take()
	return s
}

// next goes to the next version, and reports whether there is one.
func (s *versionRun) next() bool {
	if s.err != nil || s.end == len(s.encoded) {
		return false
	}
	s.Seq += s.number()
	s.take()
	return s.err == nil
}

// take reads the value that begins where the last one ends.
func (s *versionRun) take() {
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
	s.Value = s.encoded[from:s.end:s.end]
}

func (s *versionRun) number() uint64 {
	n, size := binary.Uvarint(s.encoded[s.end:])
	if size <= 0 {
		s.fail()
		return 0
	}
	s.end += size
	return n
}

func (s *versionRun) fail() {
	if s.err == nil {
		s.err = fmt.Errorf("%w: versions of a row as %x", ErrDamaged, s.encoded)
	}
}

// newestUpTo is the newest version of a version run up to a seq; that of the oldest is not
// above it.
func newestUpTo(seq, first uint64, encoded []byte) (Version, error) {
	s := openRun(first, encoded)
	found := s.Version
	for s.next() && s.Seq <= seq {
		found = s.Version
	}
	return found, s.err
}

package rowstore

import (
	"encoding/binary"
	"fmt"
)

// A version run is a list of consecutive versions of a row. It is stored as one value, under
// the key of the oldest version. Without runs, rows that nearly every event writes would make
// up most keys. The encoding of a version contains the difference from the previous version's
// seq, the length of the value, and the value. The oldest version has no difference.

// runBytes is the length, in bytes, at which a version run is full. The length is limited
// because each batch that adds to a run writes the whole run.
const runBytes = 400

// Version is one version of a row.
type Version struct {
	Seq   uint64 // seq of the event that wrote the version
	Value []byte // encoded in a format that depends on the dimension
}

// appendValue appends the length of a value and the value.
func appendValue(dst, value []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}

// versionRun iterates over the versions of a version run, oldest first.
type versionRun struct {
	Version // the current version
	encoded []byte
	at, end int   // where the current version's value begins (with its length) and ends
	err     error // set if encoded is not a version run
}

// openRun returns an iterator at the oldest version, whose seq is first.
func openRun(first uint64, encoded []byte) versionRun {
	s := versionRun{Version: Version{Seq: first}, encoded: encoded}
	s.take()
	return s
}

// next moves to the next version and reports whether there is one.
func (s *versionRun) next() bool {
	if s.err != nil || s.end == len(s.encoded) {
		return false
	}
	s.Seq += s.number()
	s.take()
	return s.err == nil
}

// take decodes the next value.
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
		s.err = fmt.Errorf("%w: cannot decode versions of a row from %x", ErrDamaged, s.encoded)
	}
}

// newestUpTo returns the newest version in an encoded version run whose seq is at most seq. first
// is the seq of the oldest version, and must not be greater than seq.
func newestUpTo(seq, first uint64, encoded []byte) (Version, error) {
	s := openRun(first, encoded)
	found := s.Version
	for s.next() && s.Seq <= seq {
		found = s.Version
	}
	return found, s.err
}

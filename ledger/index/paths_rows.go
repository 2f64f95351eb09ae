package index

import (
	"encoding/binary"
	"fmt"
)

// Category is how a record of a path stands to the one before it (1.6).
type Category string

// The categories.
const (
	New       Category = "new"       // the first of its path
	Modified  Category = "modified"  // content_fingerprint differs; null is a value
	Unchanged Category = "unchanged" // content_fingerprint is the same
)

// Categories lists all, by their number in rows.
var Categories = [...]Category{New, Modified, Unchanged}

// pathState is a path after one of its records or validations: the value of
// pathStates.
type pathState struct {
	record       uint64 // seq of the latest record
	build        uint64 // number of its build, from 1; 0 for none
	category     uint64 // its place in Categories
	validated    bool
	linksChanged bool
	id           []byte // the assigned path_id
	content, raw []byte // fingerprints; nil for null
}

// Flags of a pathState.
const (
	isValidated = 1 << iota
	hasLinksChanged
)

func (s *pathState) append(dst []byte) []byte {
	var flags uint64
	if s.validated {
		flags |= isValidated
	}
	if s.linksChanged {
		flags |= hasLinksChanged
	}
	dst = appendNumbers(dst, s.record, s.build, s.category, flags)
	return appendTexts(dst, s.id, s.content, s.raw)
}

// decodePathState decodes what append wrote; its slices are the value's.
func decodePathState(value []byte) (pathState, error) {
	var s pathState
	var flags uint64
	r := valueReader{rest: value}
	r.numbers(&s.record, &s.build, &s.category, &flags)
	r.texts(&s.id, &s.content, &s.raw)
	s.validated, s.linksChanged = flags&isValidated != 0, flags&hasLinksChanged != 0
	if s.category >= uint64(len(Categories)) {
		r.bad = true
	}
	return s, r.err("a path", value)
}

// pathsState is a project after one of its new paths: the value of projectPaths.
type pathsState struct {
	path              identity // the new one
	paths, collisions uint64   // so far
}

func (s *pathsState) append(dst []byte) []byte {
	return appendNumbers(append(dst, s.path[:]...), s.paths, s.collisions)
}

func decodePathsState(value []byte) (pathsState, error) {
	var s pathsState
	r := valueReader{rest: value}
	r.identity(&s.path)
	r.numbers(&s.paths, &s.collisions)
	return s, r.err("a project's paths", value)
}

// buildState is a build after one of its records, or one of the build before: the
// value of builds.
type buildState struct {
	first      uint64    // seq of its first record
	categories [3]uint64 // its records by category, in the order of Categories
	paths      uint64    // distinct ones
	kept       uint64    // those of them that the build before has
	// joined says that the version is that of a path's first record in the build,
	// which is path.
	joined bool
	path   identity
}

func (s *buildState) append(dst []byte) []byte {
	dst = appendNumbers(dst, s.first, s.categories[0], s.categories[1], s.categories[2], s.paths, s.kept)
	if s.joined {
		dst = append(dst, s.path[:]...)
	}
	return dst
}

func decodeBuildState(value []byte) (buildState, error) {
	var s buildState
	r := valueReader{rest: value}
	r.numbers(&s.first, &s.categories[0], &s.categories[1], &s.categories[2], &s.paths, &s.kept)
	if s.joined = len(r.rest) > 0; s.joined {
		r.identity(&s.path)
	}
	return s, r.err("a build", value)
}

// buildRow is a row of builds or buildPaths.
func buildRow(of identity, number uint64) []byte {
	return appendSeq(append(make([]byte, 0, len(of)+seqBytes), of[:]...), number)
}

func appendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// appendTexts appends texts behind their lengths and one, nil as 0.
func appendTexts(dst []byte, texts ...[]byte) []byte {
	for _, t := range texts {
		if t == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(t))+1)
		dst = append(dst, t...)
	}
	return dst
}

// valueReader reads a row's value from its beginning. What it cannot read it
// leaves as it is, and remembers.
type valueReader struct {
	rest []byte
	bad  bool
}

func (r *valueReader) numbers(to ...*uint64) {
	for _, n := range to {
		number, size := binary.Uvarint(r.rest)
		if size <= 0 {
			r.bad = true
			return
		}
		*n, r.rest = number, r.rest[size:]
	}
}

func (r *valueReader) texts(to ...*[]byte) {
	for _, t := range to {
		var size uint64
		if r.numbers(&size); size == 0 {
			continue
		}
		if size--; size > uint64(len(r.rest)) {
			r.bad = true
			return
		}
		*t, r.rest = r.rest[:size:size], r.rest[size:]
	}
}

func (r *valueReader) identity(to *identity) {
	if len(r.rest) < len(to) {
		r.bad = true
		return
	}
	r.rest = r.rest[copy(to[:], r.rest):]
}

// err is nil when all of the value was read, and nothing else was wanted.
func (r *valueReader) err(what string, value []byte) error {
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("%w: %s as %x", errDamaged, what, value)
	}
	return nil
}

package paths

import (
	"colophon/ledger/index/rowstore"
)

// Category is the relation of a record to the one before it of its path (spec: Path
// categories).
type Category string

// The categories.
const (
	New       Category = "new"       // the first of its path
	Modified  Category = "modified"  // content_fingerprint differs; null is a value
	Unchanged Category = "unchanged" // content_fingerprint is the same
)

// Categories lists all categories in the order of their numbers in rows.
var Categories = [...]Category{New, Modified, Unchanged}

// pathState is a path after one of its records or validations: the value of pathStates.
type pathState struct {
	record       uint64 // seq of the latest record
	build        uint64 // number of its build, from 1; 0 for none
	category     uint64 // position in Categories
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
	dst = rowstore.AppendNumbers(dst, s.record, s.build, s.category, flags)
	return rowstore.AppendTexts(dst, s.id, s.content, s.raw)
}

// decodePathState decodes a pathState, which refers to value.
func decodePathState(value []byte) (pathState, error) {
	var s pathState
	var flags uint64
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&s.record, &s.build, &s.category, &flags)
	r.Texts(&s.id, &s.content, &s.raw)
	s.validated, s.linksChanged = flags&isValidated != 0, flags&hasLinksChanged != 0
	if s.category >= uint64(len(Categories)) {
		r.Bad = true
	}
	return s, r.Err("a path", value)
}

// projectState is a project after one of its new paths: the value of projectPaths.
type projectState struct {
	path              rowstore.Identity // the new one
	paths, collisions uint64            // numbers so far
}

func (s *projectState) append(dst []byte) []byte {
	return rowstore.AppendNumbers(append(dst, s.path[:]...), s.paths, s.collisions)
}

func decodeProjectState(value []byte) (projectState, error) {
	var s projectState
	r := rowstore.ValueReader{Rest: value}
	r.Identity(&s.path)
	r.Numbers(&s.paths, &s.collisions)
	return s, r.Err("a project's paths", value)
}

// buildState is a build after one of its records, or after a late record of the build before:
// the value of builds.
type buildState struct {
	first      uint64    // seq of its first record
	categories [3]uint64 // numbers of records, in the order of Categories
	paths      uint64    // number of distinct paths
	kept       uint64    // number of these that the build before has too
	// addsPath: path's first record in the build wrote this version.
	addsPath bool
	path     rowstore.Identity
}

func (s *buildState) append(dst []byte) []byte {
	dst = rowstore.AppendNumbers(dst, s.first, s.categories[0], s.categories[1], s.categories[2], s.paths, s.kept)
	if s.addsPath {
		dst = append(dst, s.path[:]...)
	}
	return dst
}

func decodeBuildState(value []byte) (buildState, error) {
	var s buildState
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&s.first, &s.categories[0], &s.categories[1], &s.categories[2], &s.paths, &s.kept)
	if s.addsPath = len(r.Rest) > 0; s.addsPath {
		r.Identity(&s.path)
	}
	return s, r.Err("a build", value)
}

// buildRow returns a row of builds or buildPaths.
func buildRow(of rowstore.Identity, number uint64) []byte {
	return rowstore.AppendSeq(append(make([]byte, 0, len(of)+rowstore.SeqBytes), of[:]...), number)
}

// pathState returns the state of a path in the fold; false if it has none.
func (f *deriver) pathState(path rowstore.Identity) (pathState, bool) {
	_, value, found := f.Rows.Newest(pathStates, path[:])
	if !found {
		return pathState{}, false
	}
	return rowstore.Decode(&f.Rows, value, decodePathState), true
}

// pathHolder returns the path that holds a path_id, and its first record.
func (f *deriver) pathHolder(project, id []byte) (first uint64, path rowstore.Identity, held bool) {
	row := rowstore.Identify(project, id)
	first, value, held := f.Rows.Newest(pathHolders, row[:])
	copy(path[:], value)
	return first, path, held
}

func (f *deriver) projectState(project rowstore.Identity) projectState {
	_, value, found := f.Rows.Newest(projectPaths, project[:])
	if !found {
		return projectState{}
	}
	return rowstore.Decode(&f.Rows, value, decodeProjectState)
}

// buildState returns the state of a build in the fold; zero for a new build.
func (f *deriver) buildState(project rowstore.Identity, number uint64) buildState {
	_, value, found := f.Rows.Newest(builds, buildRow(project, number))
	if !found {
		return buildState{}
	}
	return rowstore.Decode(&f.Rows, value, decodeBuildState)
}

// inBuild reports whether a build has a path.
func (f *deriver) inBuild(path rowstore.Identity, number uint64) bool {
	_, _, found := f.Rows.Newest(buildPaths, buildRow(path, number))
	return found
}

// number returns the value of a row that is one number; 0 if there is none.
func (f *deriver) number(d rowstore.Dimension, row rowstore.Identity) uint64 {
	_, value, found := f.Rows.Newest(d, row[:])
	if !found {
		return 0
	}
	return rowstore.Decode(&f.Rows, value, rowstore.DecodeNumber)
}

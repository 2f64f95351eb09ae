package paths

import (
	"colophon/ledger/index/rowstore"
)

// Category is the result of comparing a record with another record of its path (spec: Path
// categories).
type Category string

// The results of a comparison.
const (
	CategoryNew       Category = "new"       // there is no record to compare with
	CategoryModified  Category = "modified"  // the contents differ
	CategoryUnchanged Category = "unchanged" // the contents are the same
	// CategoryIncomparable means that the hash_versions differ and that at least one of the two records has
	// no digest of its content.
	CategoryIncomparable Category = "incomparable"
)

// Categories lists the categories of records, which are all categories except CategoryGone. Rows
// store a category as its index in Categories.
var Categories = [...]Category{CategoryNew, CategoryModified, CategoryUnchanged, CategoryIncomparable}

// pathVersion describes one record or validation of a path. It is the value of a version in
// pathVersions.
type pathVersion struct {
	latest    uint64 // build number of the path's latest record; 0 if it has no build
	validates bool   // true if the event is a validation
	validated uint64 // build number of the validated record
}

func (v *pathVersion) append(dst []byte) []byte {
	dst = rowstore.AppendNumbers(dst, v.latest)
	if v.validates {
		dst = rowstore.AppendNumbers(dst, v.validated)
	}
	return dst
}

func decodePathVersion(value []byte) (pathVersion, error) {
	var v pathVersion
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&v.latest)
	if v.validates = len(r.Rest) > 0; v.validates {
		r.ReadNumbers(&v.validated)
	}
	return v, r.Finish("a path's version", value)
}

// pathState is the state of a path after one of its records. It is the value of a version in
// pathStates.
type pathState struct {
	record   uint64 // seq of the record
	category uint64 // position in Categories
	// build is the number of the record's build, or 0 for none. line is the number of the build at
	// which the record's line of builds starts. Without a build, a record continues the line of the
	// record that it was compared with.
	build, line uint64
	// span identifies the record's span by the seq of its first record. All records in a span have
	// equal content and share validations.
	span             uint64
	onlyLinksChanged bool
	otherBase        bool   // the record names a base or branch other than its build's
	id               []byte // the assigned path_id
	content, raw     []byte // fingerprints; nil for null
	version          []byte // hash_version of the fingerprints
	digest           []byte // SHA-256 of the content; nil if the record had none
}

// Flags of a pathState.
const (
	hasLinksChanged = 1 << iota
	hasOtherBase
)

func (s *pathState) append(dst []byte) []byte {
	var flags uint64
	if s.onlyLinksChanged {
		flags |= hasLinksChanged
	}
	if s.otherBase {
		flags |= hasOtherBase
	}
	dst = rowstore.AppendNumbers(dst, s.record, s.category, s.build, s.line, s.span, flags)
	return rowstore.AppendTexts(dst, s.id, s.content, s.raw, s.version, s.digest)
}

// decodePathState decodes a pathState, which aliases value.
func decodePathState(value []byte) (pathState, error) {
	var s pathState
	var flags uint64
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&s.record, &s.category, &s.build, &s.line, &s.span, &flags)
	r.ReadTexts(&s.id, &s.content, &s.raw, &s.version, &s.digest)
	s.onlyLinksChanged, s.otherBase = flags&hasLinksChanged != 0, flags&hasOtherBase != 0
	if s.category >= uint64(len(Categories)) {
		r.Malformed = true
	}
	return s, r.Finish("a path", value)
}

// line describes a build and its line of bases (spec: Validation of paths). It contains the build's
// name, branch, and base, and a skip pointer to an earlier build in the line. It is the value of a
// row in lines.
type line struct {
	base uint64 // number of the base; 0 if there is none or the base is unknown
	// skip is an ancestor of the build, or 0. By following skip, a search reaches any build in a line
	// of n builds in O(log n) steps.
	depth, skip            uint64 // depth is the number of builds in the line, including this one
	name, branch, baseName []byte // nil for none; baseName can be the name of an unknown base
}

func (l *line) append(dst []byte) []byte {
	return rowstore.AppendTexts(rowstore.AppendNumbers(dst, l.base, l.depth, l.skip), l.name, l.branch, l.baseName)
}

// decodeLine decodes a line, which aliases value.
func decodeLine(value []byte) (line, error) {
	var l line
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&l.base, &l.depth, &l.skip)
	r.ReadTexts(&l.name, &l.branch, &l.baseName)
	return l, r.Finish("the line of a build", value)
}

// validation describes one validation of a path. It is the value of a version in validations and in
// contentValidations.
type validation struct {
	build     uint64 // build number of the validated record; 0 if it has no build
	span      uint64
	validated bool
}

func (v *validation) append(dst []byte) []byte {
	var validated uint64
	if v.validated {
		validated = 1
	}
	return rowstore.AppendNumbers(dst, v.build, v.span, validated)
}

func decodeValidation(value []byte) (validation, error) {
	var v validation
	var validated uint64
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&v.build, &v.span, &validated)
	v.validated = validated == 1
	return v, r.Finish("a validation", value)
}

// projectState is the state of a project after a new path was added. It is the value of a version
// in projectPaths.
type projectState struct {
	path              rowstore.Identity // the new path
	paths, collisions uint64            // numbers of paths and collisions so far
}

func (s *projectState) append(dst []byte) []byte {
	return rowstore.AppendNumbers(append(dst, s.path[:]...), s.paths, s.collisions)
}

func decodeProjectState(value []byte) (projectState, error) {
	var s projectState
	r := rowstore.ValueReader{Rest: value}
	r.ReadIdentity(&s.path)
	r.ReadNumbers(&s.paths, &s.collisions)
	return s, r.Finish("a project's paths", value)
}

// buildState is the state of a build after one of its records, or after its base gained a path that
// the build already had. It is the value of a version in builds.
type buildState struct {
	first      uint64    // seq of the build's first record
	categories [4]uint64 // number of records in each category, in the order of Categories
	otherBases uint64    // number of records that name a base or branch other than the build's
	paths      uint64    // number of distinct paths
	kept       uint64    // number of paths that the base also has
	// addsPath is true if this version was written by the first record of path in the build.
	addsPath bool
	path     rowstore.Identity
}

func (s *buildState) append(dst []byte) []byte {
	c := &s.categories
	dst = rowstore.AppendNumbers(dst, s.first, c[0], c[1], c[2], c[3], s.otherBases, s.paths, s.kept)
	if s.addsPath {
		dst = append(dst, s.path[:]...)
	}
	return dst
}

func decodeBuildState(value []byte) (buildState, error) {
	var s buildState
	r := rowstore.ValueReader{Rest: value}
	c := &s.categories
	r.ReadNumbers(&s.first, &c[0], &c[1], &c[2], &c[3], &s.otherBases, &s.paths, &s.kept)
	if s.addsPath = len(r.Rest) > 0; s.addsPath {
		r.ReadIdentity(&s.path)
	}
	return s, r.Finish("a build", value)
}

// numbered returns the row that consists of an identity and a number.
func numbered(of rowstore.Identity, number uint64) []byte {
	return rowstore.AppendSeq(append(make([]byte, 0, len(of)+rowstore.SeqSize), of[:]...), number)
}

// contentRow returns the row in the dimension contents for a state, which must have a fingerprint.
func (s *pathState) contentRow(project []byte, build uint64) []byte {
	return numbered(rowstore.IdentityOf(project, s.version, s.content), build)
}

// validationRows returns the rows in contentValidations for the content of a path's state: one for
// the fingerprint and one for the digest, if the state has them.
func (s *pathState) validationRows(path rowstore.Identity) (rows []rowstore.Identity) {
	if s.content != nil {
		rows = append(rows, rowstore.IdentityOf(path[:], s.version, s.content))
	}
	if s.digest != nil {
		rows = append(rows, rowstore.IdentityOf(path[:], s.digest))
	}
	return rows
}

// pathVersion returns the newest version of a path, or false if the path has none.
func (f *deriver) pathVersion(path rowstore.Identity) (pathVersion, bool) {
	_, value, found := f.Rows.NewestVersion(pathVersions, path[:])
	if !found {
		return pathVersion{}, false
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodePathVersion), true
}

// pathState returns the current state of a path in the given build, or nil if the build lacks the
// path.
func (f *deriver) pathState(path rowstore.Identity, build uint64) *pathState {
	_, value, found := f.Rows.NewestVersion(pathStates, numbered(path, build))
	if !found {
		return nil
	}
	s := rowstore.DecodeOrFail(&f.Rows, value, decodePathState)
	return &s
}

// line returns the line of the given build, or the zero line for build 0.
func (f *deriver) line(project rowstore.Identity, build uint64) line {
	_, value, found := f.Rows.NewestVersion(lines, numbered(project, build))
	if !found {
		return line{}
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodeLine)
}

// pathHolder returns the path that has the given path_id, and the seq of the path's first record.
func (f *deriver) pathHolder(project, id []byte) (first uint64, path rowstore.Identity, held bool) {
	row := rowstore.IdentityOf(project, id)
	first, value, held := f.Rows.NewestVersion(pathHolders, row[:])
	copy(path[:], value)
	return first, path, held
}

func (f *deriver) projectState(project rowstore.Identity) projectState {
	_, value, found := f.Rows.NewestVersion(projectPaths, project[:])
	if !found {
		return projectState{}
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodeProjectState)
}

// buildState returns the current state of the given build, or the zero state for a new build.
func (f *deriver) buildState(project rowstore.Identity, number uint64) buildState {
	_, value, found := f.Rows.NewestVersion(builds, numbered(project, number))
	if !found {
		return buildState{}
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodeBuildState)
}

// number returns the number that is stored in the given row, or 0 if there is no such row.
func (f *deriver) number(d rowstore.Dimension, row []byte) uint64 {
	_, value, found := f.Rows.NewestVersion(d, row)
	if !found {
		return 0
	}
	return rowstore.DecodeOrFail(&f.Rows, value, rowstore.DecodeNumber)
}

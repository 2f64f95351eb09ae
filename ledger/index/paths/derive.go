package paths

import (
	"bytes"
	"context"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// pathIDName is the name under which path_ids are stored in records.PostingsDimension.
const pathIDName = "path_id"

// otherBase is the flag of a record that names a base or branch other than its build's (spec:
// Builds).
const otherBase = "other_base"

// deriver writes the states of paths, projects, and builds.
type deriver struct {
	*index.Fold
	value []byte // scratch
}

// Derive implements Deriver.
func (f *deriver) Derive(_ context.Context, e *index.Event) error {
	switch e.Kind {
	case record.KindPathFingerprint:
		f.pathFingerprint(e)
	case record.KindPathValidated:
		f.pathValidated(&e.Event)
	}
	return nil
}

// pathFingerprint folds a path fingerprint (spec: Path categories; Path id collisions;
// Builds).
func (f *deriver) pathFingerprint(e *index.Event) {
	p := &e.PathFingerprint
	project, path := rowstore.IdentityOf(p.Project), rowstore.IdentityOf(p.Project, p.Route)
	next := pathState{record: e.Seq, content: p.ContentFingerprint, raw: p.RawContentFingerprint, version: p.HashVersion, digest: p.ContentDigest}
	compared := f.latest(path)
	if compared != nil {
		next.id = bytes.Clone(compared.id)
	} else {
		next.id = f.newPath(&e.Event, p, project, path)
	}
	var of line
	if p.Build != nil {
		next.build, of = f.joinBuild(e.Seq, p, project)
		next.line, next.otherBase = next.build, of.contradicts(p)
		compared = f.inBuild(path, of.base)
	} else if compared != nil {
		next.line = compared.line
	}
	before := f.pathState(path, next.build)
	next.compare(compared, before)
	if next.build > 0 {
		f.countRecord(e.Seq, project, path, &next, of.base, before == nil)
		if next.content != nil {
			f.Rows.PutSeparately(contents, next.contentRow(p.Project, next.build), e.Seq, path[:])
		}
	}
	f.write(e, path, &next)
}

// write stores the state of a path after a record, adds the postings of the record, and counts its
// category.
func (f *deriver) write(e *index.Event, path rowstore.Identity, next *pathState) {
	version := pathVersion{latest: next.build}
	f.value = version.append(f.value[:0])
	f.Rows.Put(pathVersions, path[:], e.Seq, f.value)
	f.value = next.append(f.value[:0])
	f.Rows.Put(pathStates, numbered(path, next.build), e.Seq, f.value)
	// The path_id in the event is computed from the route alone, and can differ from next.id.
	records.WritePosting(f.Fold, rowstore.IdentityOf([]byte(pathIDName), next.id), e.Seq)
	if next.otherBase {
		records.WritePosting(f.Fold, rowstore.IdentityOf([]byte(records.NameFlag), []byte(otherBase)), e.Seq)
	}
	f.Counters.Add(counters.SeriesOf(counters.MetricPathChanges, string(Categories[next.category])), 1)
}

// latest returns the state of a path after its latest record in any build, or nil for a new
// path.
func (f *deriver) latest(path rowstore.Identity) *pathState {
	version, known := f.pathVersion(path)
	if !known {
		return nil
	}
	return f.pathState(path, version.latest)
}

// inBuild returns the state of a path in a build. It returns nil if the build is 0 or lacks
// the path.
func (f *deriver) inBuild(path rowstore.Identity, build uint64) *pathState {
	if build == 0 {
		return nil
	}
	return f.pathState(path, build)
}

// These constants are indexes into Categories.
const (
	isNew = iota
	modified
	unchanged
	incomparable
)

// compare sets the category, span, and onlyLinksChanged of s. It compares s with the state in with.
// before is the path's previous state in the same build. Either argument can be nil.
// onlyLinksChanged is set only if all fingerprints are known.
func (s *pathState) compare(with, before *pathState) {
	s.category, s.span = isNew, s.record
	switch {
	case with == nil:
	case s.sameContent(with):
		s.category, s.span = unchanged, with.span
		s.onlyLinksChanged = s.sameFingerprint(with) && s.content != nil && s.raw != nil && with.raw != nil && !bytes.Equal(s.raw, with.raw)
		return
	case !bytes.Equal(s.version, with.version) && (s.digest == nil || with.digest == nil):
		s.category = incomparable
	default:
		s.category = modified
	}
	if before != nil && s.sameContent(before) {
		s.span = before.span // the content is the same as in the path's previous record in the build
	}
}

// sameContent reports whether two records have the same content (spec: Path categories): the
// same fingerprint or, even if the hash_versions differ, the same text.
func (s *pathState) sameContent(other *pathState) bool {
	return s.sameFingerprint(other) || s.digest != nil && bytes.Equal(s.digest, other.digest)
}

func (s *pathState) sameFingerprint(other *pathState) bool {
	return bytes.Equal(s.version, other.version) && sameText(s.content, other.content)
}

// sameText reports whether two texts are equal. nil is not equal to an empty text.
func sameText(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// newPath adds a path to its project and returns the path_id that it assigns to the path.
func (f *deriver) newPath(e *event.Event, p *event.PathFingerprint, project, path rowstore.Identity) []byte {
	id := assignPathID(p.Route, func(id []byte) bool {
		_, _, held := f.pathHolder(p.Project, id)
		return held
	})
	all := f.projectState(project)
	if all.paths == 0 {
		f.Rows.PutSeparately(projects, []byte{0}, e.Seq, p.Project)
	}
	all.path = path
	all.paths++
	if len(id) > pathIDStep {
		all.collisions++
		first, _, _ := f.pathHolder(p.Project, id[:pathIDStep])
		f.value = rowstore.AppendNumbers(f.value[:0], first)
		f.Rows.PutSeparately(projectCollisions, project[:], e.Seq, rowstore.AppendTexts(f.value, id))
		f.Counters.Add(counters.SeriesOf(counters.MetricPathIDCollisions), 1)
	}
	holder := rowstore.IdentityOf(p.Project, id)
	f.Rows.Put(pathHolders, holder[:], e.Seq, path[:])
	f.value = all.append(f.value[:0])
	f.Rows.Put(projectPaths, project[:], e.Seq, f.value)
	return id
}

// joinBuild returns the number and the line of the build that a record names. If the build is new,
// joinBuild adds it.
func (f *deriver) joinBuild(seq uint64, p *event.PathFingerprint, project rowstore.Identity) (number uint64, of line) {
	build := rowstore.IdentityOf(p.Project, p.Build)
	if number = f.number(buildNumbers, build[:]); number > 0 {
		return number, f.line(project, number)
	}
	last := f.number(projectBuilds, project[:])
	of = f.newLine(p, project, last)
	number = last + 1
	f.value = rowstore.AppendNumbers(f.value[:0], number)
	f.Rows.Put(projectBuilds, project[:], seq, f.value)
	f.Rows.Put(buildNumbers, build[:], seq, f.value)
	if p.Branch != nil {
		branch := rowstore.IdentityOf(p.Project, p.Branch)
		f.Rows.Put(branches, branch[:], seq, f.value)
	}
	f.value = of.append(f.value[:0])
	f.Rows.Put(lines, numbered(project, number), seq, f.value)
	return number, of
}

// newLine returns the line of a new build. last is the number of the project's previous build. If
// the build's first record names a base, that is the base of the build. Otherwise, the base is the
// last build of its branch or, without a branch, the last build of the project.
func (f *deriver) newLine(p *event.PathFingerprint, project rowstore.Identity, last uint64) line {
	l := line{base: last, name: p.Build, branch: p.Branch}
	switch {
	case p.BaseBuild != nil:
		base := rowstore.IdentityOf(p.Project, p.BaseBuild)
		l.base, l.baseName = f.number(buildNumbers, base[:]), p.BaseBuild
	case p.Branch != nil:
		branch := rowstore.IdentityOf(p.Project, p.Branch)
		l.base = f.number(branches, branch[:])
	}
	base := f.line(project, l.base)
	if l.baseName == nil && l.base > 0 {
		l.baseName = bytes.Clone(base.name)
	}
	l.depth, l.skip = base.depth+1, l.base
	skip := f.line(project, base.skip)
	if base.depth-skip.depth == skip.depth-f.line(project, skip.skip).depth {
		l.skip = skip.skip
	}
	return l
}

// contradicts reports whether a record names a base or branch other than its build's.
func (l *line) contradicts(p *event.PathFingerprint) bool {
	return p.BaseBuild != nil && !sameText(p.BaseBuild, l.baseName) || p.Branch != nil && !sameText(p.Branch, l.branch)
}

// countRecord counts a record in its build. adds is true if the build did not have the record's
// path before.
func (f *deriver) countRecord(seq uint64, project, path rowstore.Identity, next *pathState, base uint64, adds bool) {
	build := f.buildState(project, next.build)
	if build.first == 0 {
		build.first = seq
	}
	build.categories[next.category]++
	if next.otherBase {
		build.otherBases++
	}
	if build.addsPath = adds; adds {
		build.path = path
		build.paths++
		if f.inBuild(path, base) != nil {
			build.kept++
		} else if base > 0 {
			f.addWaiting(seq, path, base, next.build)
		}
	}
	f.value = build.append(f.value[:0])
	f.Rows.Put(builds, numbered(project, next.build), seq, f.value)
	if adds {
		f.countKeptInWaitingBuilds(seq, project, path, next.build)
	}
}

// addWaiting records that a build has a path that its base lacks, so that countKeptInWaitingBuilds
// finds the build if the path is added to the base later.
func (f *deriver) addWaiting(seq uint64, path rowstore.Identity, base, build uint64) {
	row := numbered(path, base)
	if before := f.number(waiting, row); before > 0 {
		f.value = rowstore.AppendNumbers(f.value[:0], before)
		f.Rows.Put(waitingBefore, numbered(path, build), seq, f.value)
	}
	f.value = rowstore.AppendNumbers(f.value[:0], build)
	f.Rows.Put(waiting, row, seq, f.value)
}

// countKeptInWaitingBuilds is called when a path is added to the given base. It counts the path as kept in
// each build that already has the path and is based on that base. Each of these builds has a record of the
// path and is counted only once, so the average cost per record is bounded.
func (f *deriver) countKeptInWaitingBuilds(seq uint64, project, path rowstore.Identity, base uint64) {
	for number := f.number(waiting, numbered(path, base)); number > 0; number = f.number(waitingBefore, numbered(path, number)) {
		build := f.buildState(project, number)
		build.addsPath = false
		build.kept++
		f.value = build.append(f.value[:0])
		f.Rows.Put(builds, numbered(project, number), seq, f.value)
	}
}

// pathValidated folds the validation of a path's fingerprint (spec: Validation of paths). It has no
// effect if no path has the path_id, or if the record that it applies to is missing or has a
// different fingerprint.
func (f *deriver) pathValidated(e *event.Event) {
	v := e.PathValidation()
	_, path, found := f.pathHolder(v.Project, v.PathID)
	if !found {
		return
	}
	state := f.validatedState(&v, path)
	if state == nil || !sameText(state.content, v.ContentFingerprint) {
		return
	}
	version, _ := f.pathVersion(path)
	version.validates, version.validated = true, state.build
	f.value = version.append(f.value[:0])
	f.Rows.Put(pathVersions, path[:], e.Seq, f.value)
	mark := validation{build: state.build, span: state.span, validated: v.Validated}
	f.value = mark.append(f.value[:0])
	f.Rows.PutSeparately(validations, numbered(path, state.span), e.Seq, f.value)
	for _, row := range state.validationRows(path) {
		f.Rows.PutSeparately(contentValidations, row[:], e.Seq, f.value)
	}
}

// validatedState returns the state that a validation applies to, or nil if there is none. If the
// validation names a build, that is the path's state in the build. Otherwise, it is the state after
// the record that the validation names, if that is the path's latest record without a build. If
// not, it is the state after the path's latest record in any build.
func (f *deriver) validatedState(v *event.PathValidation, path rowstore.Identity) *pathState {
	if v.Build != nil {
		build := rowstore.IdentityOf(v.Project, v.Build)
		return f.inBuild(path, f.number(buildNumbers, build[:]))
	}
	if state := f.pathState(path, 0); state != nil && state.record == v.RecordSeq {
		return state
	}
	return f.latest(path)
}

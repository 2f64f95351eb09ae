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

// pathIDName is the name of path_ids in Postings.
const pathIDName = "path_id"

// deriver writes the states of paths, projects, and builds.
type deriver struct {
	*index.Fold
	value []byte // scratch
}

// Derive implements Deriver.
func (f *deriver) Derive(_ context.Context, e *index.Event) error {
	switch e.Kind {
	case record.PathFingerprint:
		f.pathFingerprint(e)
	case record.PathValidated:
		f.pathValidated(&e.Event)
	}
	return nil
}

// pathFingerprint folds a path fingerprint (spec: Path categories; Path id collisions;
// Builds).
func (f *deriver) pathFingerprint(e *index.Event) {
	p := &e.Path
	project, path := rowstore.Identify(p.Project), rowstore.Identify(p.Project, p.Route)
	next := pathState{record: e.Seq, content: p.ContentFingerprint, raw: p.RawContentFingerprint}
	if before, known := f.pathState(path); known {
		next.carryOver(&before)
	} else {
		next.id = f.newPath(&e.Event, p, project, path)
	}
	if p.Build != nil {
		next.build = f.joinBuild(&e.Event, p, project, path, next.category)
	}
	// The event's own path_id is computed from the route alone.
	records.Post(f.Fold, rowstore.Identify([]byte(pathIDName), next.id), e.Seq)
	f.value = next.append(f.value[:0])
	f.Rows.Put(pathStates, path[:], e.Seq, f.value)
	f.Counters.Add(counters.SeriesOf(counters.PathChangesTotal, string(Categories[next.category])), 1)
}

// Positions in Categories.
const (
	_ = iota // New
	modified
	unchanged
)

// carryOver completes the state of a path from the state before it. linksChanged is true only
// if all fingerprints are known.
func (s *pathState) carryOver(before *pathState) {
	s.id = before.id
	if !sameText(s.content, before.content) {
		s.category = modified
		return
	}
	s.category = unchanged
	s.validated = before.validated
	s.linksChanged = s.content != nil && s.raw != nil && before.raw != nil && !bytes.Equal(s.raw, before.raw)
}

// sameText reports whether two texts are equal. nil differs from empty.
func sameText(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// newPath adds a path to its project and returns the path_id that it is assigned.
func (f *deriver) newPath(e *event.Event, p *event.Path, project, path rowstore.Identity) []byte {
	id := assignPathID(p.Route, func(id []byte) bool {
		_, _, held := f.pathHolder(p.Project, id)
		return held
	})
	all := f.projectState(project)
	if all.paths == 0 {
		f.Rows.Write(projects, []byte{0}, e.Seq, p.Project)
	}
	all.path = path
	all.paths++
	if len(id) > pathIDStep {
		all.collisions++
		first, _, _ := f.pathHolder(p.Project, id[:pathIDStep])
		f.value = rowstore.AppendNumbers(f.value[:0], first)
		f.Rows.Write(projectCollisions, project[:], e.Seq, rowstore.AppendTexts(f.value, id))
		f.Counters.Add(counters.SeriesOf(counters.CollisionsTotal), 1)
	}
	holder := rowstore.Identify(p.Project, id)
	f.Rows.Put(pathHolders, holder[:], e.Seq, path[:])
	f.value = all.append(f.value[:0])
	f.Rows.Put(projectPaths, project[:], e.Seq, f.value)
	return id
}

// joinBuild counts a record in its build and returns the build's number.
func (f *deriver) joinBuild(e *event.Event, p *event.Path, project, path rowstore.Identity, category uint64) uint64 {
	number, last := f.buildNumber(e, p, project)
	build := f.buildState(project, number)
	if build.first == 0 {
		build.first = e.Seq
	}
	build.categories[category]++
	if build.addsPath = !f.inBuild(path, number); build.addsPath {
		build.path = path
		build.paths++
		f.Rows.Put(buildPaths, buildRow(path, number), e.Seq, nil)
		if number > 1 && f.inBuild(path, number-1) {
			build.kept++
		}
		if number < last && f.inBuild(path, number+1) {
			f.countKept(e, project, number+1)
		}
	}
	f.value = build.append(f.value[:0])
	f.Rows.Put(builds, buildRow(project, number), e.Seq, f.value)
	return number
}

// countKept counts a path of a build that was added late to the build before.
func (f *deriver) countKept(e *event.Event, project rowstore.Identity, number uint64) {
	build := f.buildState(project, number)
	build.addsPath = false
	build.kept++
	f.value = build.append(f.value[:0])
	f.Rows.Put(builds, buildRow(project, number), e.Seq, f.value)
}

// buildNumber returns the number of a record's build, which it assigns to a new build, and the
// number of the project's last build.
func (f *deriver) buildNumber(e *event.Event, p *event.Path, project rowstore.Identity) (number, last uint64) {
	build := rowstore.Identify(p.Project, p.Build)
	last = f.number(projectBuilds, project)
	if number = f.number(buildNumbers, build); number > 0 {
		return number, last
	}
	last++
	f.value = rowstore.AppendNumbers(f.value[:0], last)
	f.Rows.Put(projectBuilds, project[:], e.Seq, f.value)
	f.Rows.Put(buildNumbers, build[:], e.Seq, f.value)
	return last, last
}

// pathValidated folds the validation of a path's fingerprint. It changes nothing if the path
// has another fingerprint by now, or no path holds the path_id.
func (f *deriver) pathValidated(e *event.Event) {
	v := e.Validation()
	_, path, found := f.pathHolder(v.Project, v.PathID)
	if !found {
		return
	}
	state, _ := f.pathState(path)
	if !sameText(state.content, v.ContentFingerprint) {
		return
	}
	state.validated = v.Validated
	f.value = state.append(f.value[:0])
	f.Rows.Put(pathStates, path[:], e.Seq, f.value)
}

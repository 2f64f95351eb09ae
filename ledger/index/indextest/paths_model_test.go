package indextest

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/paths"
	"colophon/ledger/record"
)

// naiveProject is the state of a project, computed by walking over all events (spec: Path
// categories; Path validation; Path id collisions; Builds).
type naiveProject struct {
	name   string
	first  uint64
	paths  []*naivePath  // in order of first appearance
	builds []*naiveBuild // in order of first appearance
}

type naiveBuild struct {
	name             string
	branch, baseName *string     // nil if there is none
	base             *naiveBuild // nil if there is none
}

// line returns the build, its base, the base of its base, and so on.
func (b *naiveBuild) line() []*naiveBuild {
	if b == nil {
		return nil
	}
	return append([]*naiveBuild{b}, b.base.line()...)
}

type naivePath struct {
	joined  string
	id      string
	events  []*naiveVersion // records and validations
	records []*naiveVersion
}

// naiveVersion is a record of a path, or a validation of such a record.
type naiveVersion struct {
	paths.Version
	of        *naiveVersion // the record that a validation refers to; nil for a record
	validated bool          // for a validation: true if it validates the record, and false if it ends the validation
	build     *naiveBuild   // the build of a record; nil if the record has no build
	compared  *naiveVersion // the record that this record is compared with; may be nil
	repeated  *naiveVersion // the previous record in the same build, if it has the same content
	digest    string        // digest of the content of a record; empty if it had none
}

// compare returns the category of v relative to another record of the same path. It also reports
// whether only the links changed.
func (v *naiveVersion) compare(with *naiveVersion) (category paths.Category, linksChanged bool) {
	switch {
	case with == nil:
		return paths.CategoryNew, false
	case v.HashVersion == with.HashVersion && v.ContentFingerprint == with.ContentFingerprint:
		known := v.ContentFingerprint != "" && v.RawContentFingerprint != "" && with.RawContentFingerprint != ""
		return paths.CategoryUnchanged, known && v.RawContentFingerprint != with.RawContentFingerprint
	case v.digest != "" && v.digest == with.digest:
		return paths.CategoryUnchanged, false
	case v.HashVersion != with.HashVersion && (v.digest == "" || with.digest == ""):
		return paths.CategoryIncomparable, false
	}
	return paths.CategoryModified, false
}

// knownSame reports whether a record is known to have the same content as another record.
func (v *naiveVersion) knownSame(other *naiveVersion) bool {
	category, _ := v.compare(other)
	return category == paths.CategoryUnchanged && (v.ContentFingerprint != "" || v.digest != "")
}

// span returns the first record in v's chain of records with unchanged content. All records in the
// chain share their validations.
func (v *naiveVersion) span() *naiveVersion {
	switch {
	case v.Category == paths.CategoryUnchanged:
		return v.compared.span()
	case v.repeated != nil:
		return v.repeated.span()
	}
	return v
}

// line returns the builds that the record continues: its own build, that build's base, and so on.
func (v *naiveVersion) line() []*naiveBuild {
	if v.build == nil && v.compared != nil {
		return v.compared.line()
	}
	return v.build.line()
}

// in reports whether the record's build is one of the builds that other continues. If the record
// has no build, in reports whether other has none either.
func (v *naiveVersion) in(other *naiveVersion) bool {
	if v.build == nil {
		return other.build == nil
	}
	return slices.Contains(other.line(), v.build)
}

// at returns the version for a record, with its validation as of the given log size.
func (p *naivePath) at(v *naiveVersion, size uint64) paths.Version {
	result := v.Version
	var before *naiveVersion
	for _, e := range slices.Backward(p.events) {
		if e.of == nil || e.EventSeq >= size || !e.of.in(v) {
			continue
		}
		if e.of.span() == v.span() {
			result.Validated = e.validated
			return result
		}
		if before == nil && v.knownSame(e.of) {
			before = e
		}
	}
	if before != nil && before.validated {
		result.EarlierValidationSeq = before.EventSeq
	}
	return result
}

// history returns all versions of the path, each as of the event that recorded it.
func (p *naivePath) history() []paths.Version {
	var list []paths.Version
	for _, e := range p.events {
		if e.of == nil {
			list = append(list, p.at(e, e.EventSeq+1))
			continue
		}
		v := p.at(e.of, e.EventSeq+1)
		list = append(list, paths.Version{ListedPath: paths.ListedPath{Path: v.Path, Time: e.Time}, EventSeq: e.EventSeq, Kind: e.Kind, Reason: e.Reason})
	}
	return list
}

// latest returns the latest record of a path that satisfies the predicate, or nil if there is none.
func (p *naivePath) latest(matches func(v *naiveVersion) bool) *naiveVersion {
	for _, v := range slices.Backward(p.records) {
		if matches(v) {
			return v
		}
	}
	return nil
}

func (p *naivePath) inBuild(b *naiveBuild) *naiveVersion {
	return p.latest(func(v *naiveVersion) bool { return v.build == b })
}

func anyBuild(*naiveVersion) bool { return true }

// naiveEvent holds the decoded members of an event about a path.
type naiveEvent struct {
	Kind   record.Kind
	Time   time.Time
	Record struct {
		Project   string
		Build     *string
		Branch    *string
		Base      *string
		Route     []string
		RecordSeq uint64  `json:"record_seq"`
		PathID    string  `json:"path_id"`
		Content   *string `json:"content_fingerprint"`
		Validated bool
		Reason    string
		Hashes    struct {
			Content *string `json:"content_fingerprint"`
			Raw     *string `json:"raw_content_fingerprint"`
		}
		HashVersion string `json:"hash_version"`
		Texts       struct {
			Content struct{ SHA256 string }
		} `json:"content"`
	}
}

// naiveProjects computes the state of every project from the entries of a log.
func naiveProjects(t tester, entries [][]byte) []*naiveProject {
	t.Helper()
	var all []*naiveProject
	for seq, entry := range entries {
		var e naiveEvent
		require.NoError(t, json.Unmarshal(entry[32:], &e))
		p := findProject(all, e.Record.Project)
		switch e.Kind {
		case record.KindPathFingerprint:
			if p == nil {
				p = &naiveProject{name: e.Record.Project, first: uint64(seq)}
				all = append(all, p)
			}
			p.record(uint64(seq), &e)
		case record.KindPathValidated:
			if p != nil {
				p.validate(uint64(seq), &e)
			}
		}
	}
	return all
}

func findProject(all []*naiveProject, name string) *naiveProject {
	for _, p := range all {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (p *naiveProject) byID(id string) *naivePath {
	for _, path := range p.paths {
		if path.id == id {
			return path
		}
	}
	return nil
}

func (p *naiveProject) build(name string) *naiveBuild {
	for _, b := range p.builds {
		if b.name == name {
			return b
		}
	}
	return nil
}

// joinBuild returns the build that a record names, after adding it if it is new, and reports
// whether the record contradicts the base or branch of an existing build.
func (p *naiveProject) joinBuild(e *naiveEvent) (b *naiveBuild, contradicts bool) {
	r := &e.Record
	if r.Build == nil {
		return nil, false
	}
	if b = p.build(*r.Build); b == nil {
		b = &naiveBuild{name: *r.Build, branch: r.Branch}
		for _, other := range p.builds {
			if r.Branch == nil || other.branch != nil && *other.branch == *r.Branch {
				b.base = other
			}
		}
		if r.Base != nil {
			b.base, b.baseName = p.build(*r.Base), r.Base
		} else if b.base != nil {
			b.baseName = &b.base.name
		}
		p.builds = append(p.builds, b)
		return b, false
	}
	differs := func(given, own *string) bool { return given != nil && (own == nil || *given != *own) }
	return b, differs(r.Base, b.baseName) || differs(r.Branch, b.branch)
}

func (p *naiveProject) record(seq uint64, e *naiveEvent) {
	joined := strings.Join(e.Record.Route, " → ")
	v := &naiveVersion{Version: paths.Version{EventSeq: seq, Kind: e.Kind}}
	v.Seq, v.Time, v.Build, v.Route = seq, e.Time, e.Record.Build, e.Record.Route
	v.ContentFingerprint, v.RawContentFingerprint = orEmpty(e.Record.Hashes.Content), orEmpty(e.Record.Hashes.Raw)
	v.HashVersion, v.digest = e.Record.HashVersion, e.Record.Texts.Content.SHA256
	v.build, v.HasOtherBase = p.joinBuild(e)
	var path *naivePath
	for _, candidate := range p.paths {
		if candidate.joined == joined {
			path = candidate
		}
	}
	if path == nil {
		sum := md5.Sum([]byte(joined))
		path = &naivePath{joined: joined}
		for digits := 8; path.id == ""; digits += 8 {
			if id := hex.EncodeToString(sum[:])[:digits]; p.byID(id) == nil {
				path.id = id
			}
		}
		p.paths = append(p.paths, path)
	}
	switch {
	case v.build == nil:
		v.compared = path.latest(anyBuild)
	case v.build.base != nil:
		v.compared = path.inBuild(v.build.base)
	}
	if before := path.inBuild(v.build); before != nil {
		if category, _ := v.compare(before); category == paths.CategoryUnchanged {
			v.repeated = before
		}
	}
	v.Category, v.OnlyLinksChanged = v.compare(v.compared)
	v.PathID = path.id
	path.events, path.records = append(path.events, v), append(path.records, v)
}

func (p *naiveProject) validate(seq uint64, e *naiveEvent) {
	path := p.byID(e.Record.PathID)
	if path == nil {
		return
	}
	of := path.latest(anyBuild)
	if loose := path.inBuild(nil); loose != nil && loose.Seq == e.Record.RecordSeq {
		of = loose
	}
	if e.Record.Build != nil {
		of = nil
		if b := p.build(*e.Record.Build); b != nil {
			of = path.inBuild(b)
		}
	}
	if of == nil || of.ContentFingerprint != orEmpty(e.Record.Content) {
		return
	}
	path.events = append(path.events, &naiveVersion{of: of, validated: e.Record.Validated,
		Version: paths.Version{ListedPath: paths.ListedPath{Time: e.Time}, EventSeq: seq, Kind: e.Kind, Reason: e.Record.Reason}})
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

const atHead = 1 << 62

// current returns the latest row of each path in a project, or in one of its builds, if the row
// matches the filter.
func (p *naiveProject) current(f paths.Filter) []paths.ListedPath {
	of := anyBuild
	if f.Build != nil {
		b := p.build(*f.Build)
		of = func(v *naiveVersion) bool { return v.build == b }
	}
	var rows []paths.ListedPath
	for _, path := range p.newestFirst(of) {
		row := path.at(path.latest(of), atHead).ListedPath
		if (f.Category == "" || f.Category == row.Category) && (f.Validated == nil || *f.Validated == row.Validated) {
			rows = append(rows, row)
		}
	}
	return rows
}

// newestFirst returns the paths that have a matching record. The path whose first matching record
// is newest comes first.
func (p *naiveProject) newestFirst(matches func(v *naiveVersion) bool) []*naivePath {
	var all []*naivePath
	first := func(path *naivePath) int { return slices.IndexFunc(path.records, matches) }
	for _, path := range p.paths {
		if first(path) >= 0 {
			all = append(all, path)
		}
	}
	slices.SortFunc(all, func(a, b *naivePath) int { return int(b.records[first(b)].Seq) - int(a.records[first(a)].Seq) })
	return all
}

// in returns the paths of a build, sorted by their first record in the build, newest first.
func (p *naiveProject) in(b *naiveBuild) []*naivePath {
	if b == nil {
		return nil
	}
	return p.newestFirst(func(v *naiveVersion) bool { return v.build == b })
}

func (p *naiveProject) gone(b *naiveBuild) []paths.ListedPath {
	var rows []paths.ListedPath
	for _, path := range p.in(b.base) {
		if path.inBuild(b) == nil {
			rows = append(rows, path.at(path.inBuild(b.base), atHead).ListedPath)
		}
	}
	return rows
}

func (p *naiveProject) buildList() []paths.Build {
	var list []paths.Build
	for _, build := range p.builds {
		b := paths.Build{Name: build.name, Branch: build.branch, Paths: uint64(len(p.in(build))), GonePaths: uint64(len(p.gone(build)))}
		if b.BaseBuild = build.baseName; build.base == nil {
			b.BaseBuild, b.UnknownBase = nil, build.baseName
		}
		for _, path := range p.paths {
			for _, v := range path.records {
				if v.build != build {
					continue
				}
				if b.Seq == 0 || v.EventSeq < b.Seq {
					b.Seq, b.Time, b.HashVersion = v.EventSeq, v.Time, v.HashVersion
				}
				switch v.Category {
				case paths.CategoryNew:
					b.NewRecords++
				case paths.CategoryModified:
					b.ModifiedRecords++
				case paths.CategoryUnchanged:
					b.UnchangedRecords++
				case paths.CategoryIncomparable:
					b.IncomparableRecords++
				}
				if v.HasOtherBase {
					b.OtherBaseRecords++
				}
			}
		}
		list = append(list, b)
	}
	return list
}

// compare returns the differences between the paths of two builds.
func (p *naiveProject) compare(a, b *naiveBuild, category paths.Category) []paths.Difference {
	side := func(path *naivePath, build *naiveBuild) *paths.Path {
		if v := path.inBuild(build); v != nil {
			return &[]paths.Path{path.at(v, atHead).Path}[0]
		}
		return nil
	}
	both := p.in(b)
	for _, path := range p.in(a) {
		if path.inBuild(b) == nil {
			both = append(both, path)
		}
	}
	var list []paths.Difference
	for _, path := range both {
		d := paths.Difference{A: side(path, a), B: side(path, b), PathID: path.id}
		switch {
		case d.B == nil:
			d.Category = paths.CategoryGone
		default:
			d.Category, d.OnlyLinksChanged = path.inBuild(b).compare(path.inBuild(a))
		}
		shown, in, notIn := path.inBuild(b), a, b
		if d.B == nil {
			shown, in, notIn = path.inBuild(a), b, a
		}
		d.Route = shown.Route
		if (d.A == nil || d.B == nil) && shown.ContentFingerprint != "" {
			for _, other := range p.in(in) {
				if v := other.inBuild(in); other.inBuild(notIn) == nil && v.HashVersion == shown.HashVersion &&
					v.ContentFingerprint == shown.ContentFingerprint {
					d.RenameCandidates = append(d.RenameCandidates, paths.RenameCandidate{PathID: other.id, Seq: v.Seq, Route: v.Route})
				}
			}
			// Renamed paths are sorted by their latest record in the build, newest first.
			slices.SortFunc(d.RenameCandidates, func(a, b paths.RenameCandidate) int { return int(b.Seq) - int(a.Seq) })
		}
		if category == "" || category == d.Category {
			list = append(list, d)
		}
	}
	return list
}

func (p *naiveProject) collisions() []paths.Collision {
	var list []paths.Collision
	for _, path := range slices.Backward(p.paths) {
		if len(path.id) == 8 {
			continue
		}
		holder := p.byID(path.id[:8]).records[0]
		list = append(list, paths.Collision{Seq: path.records[0].Seq, PathID: path.id, Route: path.records[0].Route,
			HolderPathID: holder.PathID, HolderSeq: holder.Seq, HolderRoute: holder.Route})
	}
	return list
}

func naiveProjectList(all []*naiveProject) []paths.Project {
	var list []paths.Project
	for _, p := range slices.Backward(all) {
		list = append(list, paths.Project{Seq: p.first, Name: p.name, Paths: uint64(len(p.paths)),
			Builds: uint64(len(p.builds)), Collisions: uint64(len(p.collisions()))})
	}
	return list
}

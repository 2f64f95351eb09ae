package query

import (
	"errors"

	"colophon/client/wire"
	"colophon/ledger/index/paths"
	"colophon/ledger/record/rules"
)

// pathQuestions lists the questions about paths, which have no state (spec: Path categories; Path id collisions;
// Builds).
var pathQuestions = []Question{
	{Path: "/paths", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWithoutParameters(Projects)},
	{Path: "/paths/:project", SharedParameters: PageParameters | ProofsParameter, ParameterNames: []string{"status", "validated", "build"}, ParseParameters: askWith(parsePaths, Paths)},
	{Path: "/paths/:project/builds", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWith(pathParameter("project"), Builds)},
	{Path: "/paths/:project/builds/:build/gone", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWith(buildInPath, GonePaths)},
	{Path: "/paths/:project/compare", SharedParameters: PageParameters | ProofsParameter, ParameterNames: []string{"a", "b", "status"}, ParseParameters: askWith(parseComparison, CompareBuilds)},
	{Path: "/paths/:project/collisions", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWith(pathParameter("project"), PathCollisions)},
	{Path: "/paths/:project/:path_id", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWith(pathInPath, PathHistory)},
}

// Projects lists the projects that have paths. The seq of a row is the seq of the project's first record.
func Projects(v *View) (*wire.Page[wire.ProjectRow], error) {
	found, next, err := paths.ListProjects(v.View, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, projectRow)
}

func projectRow(v *View, p *paths.Project) wire.ProjectRow {
	return wire.ProjectRow{RowMembers: v.row(p.Seq), Project: p.Name, Paths: p.Paths, Builds: p.Builds, Collisions: p.Collisions}
}

// PathsQuery selects paths of a project.
type PathsQuery struct {
	Project string // name of the project
	paths.Filter
}

func parsePaths(p Parameters) (q PathsQuery, err error) {
	q.Project = p["project"]
	if q.Category, err = oneOf("status", p["status"], "", paths.Categories[:]); err != nil {
		return q, err
	}
	if p.Has("validated") {
		validated, err := p.ParseChoice("validated", "false", "true")
		if err != nil {
			return q, err
		}
		q.Validated = &validated
	}
	if build, given := p["build"]; given {
		q.Build = &build
	}
	return q, nil
}

// Paths lists the paths of a project or of one of its builds. Each row shows the path as of its latest record in that
// project or build.
func Paths(v *View, q PathsQuery) (*wire.Page[wire.PathRow], error) {
	found, next, err := paths.List(v.Context, v.View, q.Project, q.Filter, v.Page)
	if err != nil {
		return nil, noPaths(err, "no project with the given name has paths, or the project does not have the given build")
	}
	return page(v, found, next, pathRow)
}

func pathRow(v *View, p *paths.ListedPath) wire.PathRow {
	return wire.PathRow{RowMembers: v.row(p.Seq), PathID: p.PathID, Route: p.Route, Category: string(p.Category), PathStatus: pathStatus(&p.Path),
		Build: p.Build, Time: timeOf(p.Time)}
}

func pathStatus(p *paths.Path) wire.PathStatus {
	return wire.PathStatus{Validated: p.Validated, EarlierValidationSeq: p.EarlierValidationSeq, LinksChanged: p.OnlyLinksChanged,
		ContentFingerprint: nullable(p.ContentFingerprint), RawContentFingerprint: nullable(p.RawContentFingerprint),
		HashVersion: otherVersion(p.HashVersion)}
}

// otherVersion returns version, or "" if it is the default hash_version.
func otherVersion(version string) string {
	if version == rules.FingerprintVersion {
		return ""
	}
	return version
}

// PathKey identifies a path, that is, a route through the story of a project.
type PathKey struct{ Project, ID string } // ID is a path_id

func pathInPath(p Parameters) (PathKey, error) { return PathKey{p["project"], p["path_id"]}, nil }

// PathHistory lists the versions of a path, that is, its state after each of its records and validations.
func PathHistory(v *View, path PathKey) (*wire.Page[wire.PathVersion], error) {
	found, next, err := paths.History(v.Context, v.View, path.Project, path.ID, v.Page)
	if err != nil {
		return nil, noPaths(err, "no path of the given project has the given path_id")
	}
	return page(v, found, next, pathVersion)
}

func pathVersion(v *View, p *paths.Version) wire.PathVersion {
	return wire.PathVersion{RowMembers: v.row(p.EventSeq), Kind: wire.Kind(p.Kind), Time: timeOf(p.Time), RecordSeq: p.Seq, Category: string(p.Category),
		PathStatus: pathStatus(&p.Path), Route: p.Route, Build: p.Build, Reason: nullable(p.Reason)}
}

// Builds lists the builds of a project, sorted by first record, oldest first.
func Builds(v *View, project string) (*wire.Page[wire.BuildRow], error) {
	found, next, err := paths.ListBuilds(v.Context, v.View, project, v.Page)
	if err != nil {
		return nil, noPaths(err, "no project with the given name has paths")
	}
	return page(v, found, next, buildRow)
}

func buildRow(v *View, b *paths.Build) wire.BuildRow {
	return wire.BuildRow{RowMembers: v.row(b.Seq), Build: b.Name, Branch: b.Branch, Base: b.BaseBuild, UnknownBase: b.UnknownBase, Time: timeOf(b.Time),
		New: b.NewRecords, Modified: b.ModifiedRecords, Unchanged: b.UnchangedRecords, Incomparable: b.IncomparableRecords, HashVersion: otherVersion(b.HashVersion), Gone: b.GonePaths, Paths: b.Paths, OtherBases: b.OtherBaseRecords}
}

// BuildKey identifies a build of a project.
type BuildKey struct{ Project, Build string } // names of the project and of the build

func buildInPath(p Parameters) (BuildKey, error) {
	return BuildKey{p["project"], p["build"]}, nil
}

// GonePaths lists the paths that a build lacks but its base build has.
func GonePaths(v *View, b BuildKey) (*wire.Page[wire.PathRow], error) {
	found, next, err := paths.ListGonePaths(v.Context, v.View, b.Project, b.Build, v.Page)
	if err != nil {
		return nil, noPaths(err, "the given project does not have the given build")
	}
	return page(v, found, next, pathRow)
}

func parseComparison(p Parameters) (q paths.ComparisonQuery, err error) {
	for _, name := range [...]string{"a", "b"} {
		if !p.Has(name) {
			return q, invalid(name, "is required: the name of a build")
		}
	}
	q.Project, q.BuildA, q.BuildB = p["project"], p["a"], p["b"]
	q.Category, err = oneOf("status", p["status"], "", append(paths.Categories[:], paths.CategoryGone))
	return q, err
}

// CompareBuilds lists the paths of two builds, a and b. Each row says how the path in b differs from the path in a.
func CompareBuilds(v *View, q paths.ComparisonQuery) (*wire.Page[wire.PathDifference], error) {
	found, next, err := paths.Compare(v.Context, v.View, q, v.Page)
	if err != nil {
		return nil, noPaths(err, "the given project does not have both of the given builds")
	}
	return page(v, found, next, differenceRow)
}

func differenceRow(v *View, d *paths.Difference) wire.PathDifference {
	shown := d.B
	if shown == nil {
		shown = d.A
	}
	row := wire.PathDifference{RowMembers: v.row(shown.Seq), PathID: d.PathID, Route: d.Route, Status: string(d.Category), LinksChanged: d.OnlyLinksChanged,
		A: pathSide(d.A), B: pathSide(d.B), RenameCandidates: make([]wire.RenameCandidate, len(d.RenameCandidates))}
	for i, r := range d.RenameCandidates {
		row.RenameCandidates[i] = wire.RenameCandidate{Seq: r.Seq, PathID: r.PathID, Route: r.Route}
	}
	return row
}

func pathSide(p *paths.Path) *wire.ComparedPath {
	if p == nil {
		return nil
	}
	return &wire.ComparedPath{Seq: p.Seq, Validated: p.Validated, EarlierValidationSeq: p.EarlierValidationSeq,
		ContentFingerprint: nullable(p.ContentFingerprint), RawContentFingerprint: nullable(p.RawContentFingerprint),
		HashVersion: otherVersion(p.HashVersion)}
}

// PathCollisions lists the paths of a project whose path_id was already taken by another path. The seq of a row is the
// seq of the path's first record.
func PathCollisions(v *View, project string) (*wire.Page[wire.PathCollision], error) {
	found, next, err := paths.ListCollisions(v.Context, v.View, project, v.Page)
	if err != nil {
		return nil, noPaths(err, "no project with the given name has paths")
	}
	return page(v, found, next, collisionRow)
}

func collisionRow(v *View, c *paths.Collision) wire.PathCollision {
	return wire.PathCollision{RowMembers: v.row(c.Seq), PathID: c.PathID, Route: c.Route,
		Holder: wire.PathIDHolder{Seq: c.HolderSeq, PathID: c.HolderPathID, Route: c.HolderRoute}}
}

// noPaths turns paths.ErrNotFound into an Error with the given detail. It returns other errors unchanged.
func noPaths(err error, detail string) error {
	if errors.Is(err, paths.ErrNotFound) {
		return missing("%s; GET /paths lists the ledger's projects", detail)
	}
	return err
}

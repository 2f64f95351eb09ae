package paths

import (
	"context"
	"fmt"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Project describes a project and counts its paths, builds, and collisions.
type Project struct {
	Seq        uint64 // seq of the project's first record
	Name       string
	Paths      uint64 // number of distinct paths
	Builds     uint64 // number of builds; records without a build are not counted
	Collisions uint64 // number of paths whose eight-digit path_id was already taken
}

// ListProjects returns the projects of the ledger, sorted by first record, newest first.
func ListProjects(v *index.View, page index.PageRequest) ([]Project, []byte, error) {
	return rowstore.PageNewestFirst(v.Reader, projects, []byte{0}, page, func(r rowstore.Version) (*Project, error) {
		p := &Project{Seq: r.Seq, Name: string(r.Value)}
		id := rowstore.IdentityOf(r.Value)
		_, value, _, err := v.NewestVersion(projectPaths, id[:])
		if err != nil {
			return nil, err
		}
		paths, err := decodeProjectState(value)
		if err != nil {
			return nil, err
		}
		p.Paths, p.Collisions = paths.paths, paths.collisions
		p.Builds, err = numberAt(v, projectBuilds, id)
		return p, err
	})
}

// Collision describes a path whose path_id was already taken by another path (spec: Path
// categories).
type Collision struct {
	Seq          uint64   // seq of the path's first record
	PathID       string   // the longer path_id that was assigned to the path
	Route        []string // names of the path's passages, in order
	HolderPathID string   // the eight-digit path_id that was already taken
	// HolderSeq is the seq of the first record of the path that already had HolderPathID.
	// HolderRoute is the route of that path.
	HolderSeq   uint64
	HolderRoute []string
}

// ListCollisions returns the collisions of a project, newest first. It returns ErrNotFound if
// there is no such project.
func ListCollisions(ctx context.Context, v *index.View, project string, page index.PageRequest) ([]Collision, []byte, error) {
	if err := requireProject(v, project); err != nil {
		return nil, nil, err
	}
	id := rowstore.IdentityOf([]byte(project))
	return rowstore.PageNewestFirst(v.Reader, projectCollisions, id[:], page, func(r rowstore.Version) (*Collision, error) {
		c := &Collision{Seq: r.Seq}
		var id []byte
		value := rowstore.ValueReader{Rest: r.Value}
		value.ReadNumbers(&c.HolderSeq)
		value.ReadTexts(&id)
		if err := value.Finish("a collision", r.Value); err != nil {
			return nil, err
		}
		c.PathID, c.HolderPathID = string(id), string(id[:min(pathIDStep, len(id))])
		var err error
		if c.Route, err = routeOf(ctx, v, c.Seq); err != nil {
			return nil, err
		}
		c.HolderRoute, err = routeOf(ctx, v, c.HolderSeq)
		return c, err
	})
}

// Build describes a build of a project and counts its records and paths.
type Build struct {
	Seq         uint64    // seq of the build's first record
	Time        time.Time // time of the first record's event
	Name        string    // name of the build
	Branch      *string   // nil if the build has none
	BaseBuild   *string   // name of the build that this one is compared with; nil if there is none
	HashVersion string    // hash_version of the first record
	// UnknownBase is the base that the build's first record names, if the project had no such build
	// at that time. Otherwise it is nil.
	UnknownBase *string
	// NewRecords, ModifiedRecords, UnchangedRecords, and IncomparableRecords are the numbers of the
	// build's records in each category.
	NewRecords, ModifiedRecords, UnchangedRecords, IncomparableRecords uint64
	OtherBaseRecords                                                   uint64 // number of records that name a base or branch other than the build's
	Paths                                                              uint64 // number of distinct paths
	GonePaths                                                          uint64 // number of paths that the base has and the build lacks
}

// ListBuilds returns the builds of a project sorted by first record, oldest first. It returns
// ErrNotFound if there is no such project.
func ListBuilds(ctx context.Context, v *index.View, project string, page index.PageRequest) ([]Build, []byte, error) {
	if err := requireProject(v, project); err != nil {
		return nil, nil, err
	}
	last, _, err := page.Position()
	if err != nil {
		return nil, nil, err
	}
	id := rowstore.IdentityOf([]byte(project))
	count, err := numberAt(v, projectBuilds, id)
	if err != nil {
		return nil, nil, err
	}
	if last > count {
		return nil, nil, index.ErrInvalidPosition
	}
	var list []Build
	for last < count && len(list) < page.Limit {
		last++
		build, err := readBuild(ctx, v, id, last)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, *build)
	}
	if last == count {
		return list, nil, nil
	}
	return list, rowstore.AppendSeq(nil, last), nil
}

// readBuild reads the build with the given number. It also counts the paths that the base has and
// the build lacks.
func readBuild(ctx context.Context, v *index.View, project rowstore.Identity, number uint64) (*Build, error) {
	state, err := buildAt(v, project, number)
	if err != nil {
		return nil, err
	}
	of, err := lineAt(v, project, number)
	if err != nil {
		return nil, err
	}
	e, err := v.Event(ctx, state.first)
	if err != nil {
		return nil, err
	}
	c := state.categories
	b := &Build{
		Seq: state.first, Time: e.Time, Name: string(of.name), Branch: textOf(of.branch),
		HashVersion: string(e.PathFingerprint().HashVersion), NewRecords: c[0], ModifiedRecords: c[1], UnchangedRecords: c[2], IncomparableRecords: c[3], OtherBaseRecords: state.otherBases, Paths: state.paths,
	}
	if of.base == 0 {
		b.UnknownBase = textOf(of.baseName)
		return b, nil
	}
	b.BaseBuild = textOf(of.baseName)
	base, err := buildAt(v, project, of.base)
	b.GonePaths = base.paths - state.kept
	return b, err
}

// textOf returns a pointer to a copy of text, or nil if text is nil.
func textOf(text []byte) *string {
	if text == nil {
		return nil
	}
	s := string(text)
	return &s
}

// ListGonePaths returns the paths that a build's base has but the build lacks. Each path is shown
// as of its latest record in the base. The paths are sorted by their first record in the base,
// newest first. A page may have fewer rows than its limit, or none, because it ends after reading
// 20 keys for each requested row. ListGonePaths returns ErrNotFound if there is no such build.
func ListGonePaths(ctx context.Context, v *index.View, project, build string, page index.PageRequest) ([]ListedPath, []byte, error) {
	number, err := buildNumberOf(v, project, build)
	if err != nil {
		return nil, nil, err
	}
	r := newReader(v, project)
	of, err := lineAt(v, r.project, number)
	if err != nil {
		return nil, nil, err
	}
	// If the build has no base, of.base is 0 and the page is empty.
	return r.inBuild(of.base, page, func(path rowstore.Identity, state *pathState) (*ListedPath, error) {
		kept, err := findState(v, path, number, v.Size())
		if err != nil || kept != nil {
			return nil, err
		}
		row, err := r.path(path, state, v.Size())
		if err != nil {
			return nil, err
		}
		return r.complete(ctx, row)
	})
}

// requireProject returns ErrNotFound if there is no such project.
func requireProject(v *index.View, project string) error {
	id := rowstore.IdentityOf([]byte(project))
	_, _, found, err := v.NewestVersion(projectPaths, id[:])
	if err == nil && !found {
		err = fmt.Errorf("looking up project %q: %w", project, ErrNotFound)
	}
	return err
}

func buildID(project, build string) rowstore.Identity {
	return rowstore.IdentityOf([]byte(project), []byte(build))
}

// buildNumberOf returns the number of a build, or ErrNotFound if there is no such build.
func buildNumberOf(v *index.View, project, build string) (uint64, error) {
	number, err := numberAt(v, buildNumbers, buildID(project, build))
	if err == nil && number == 0 {
		err = fmt.Errorf("looking up build %q of project %q: %w", build, project, ErrNotFound)
	}
	return number, err
}

// numberAt returns the number that is stored in the given row, or 0 if there is no such row.
func numberAt(v *index.View, d rowstore.Dimension, row rowstore.Identity) (uint64, error) {
	_, value, found, err := v.NewestVersion(d, row[:])
	if err != nil || !found {
		return 0, err
	}
	return rowstore.DecodeNumber(value)
}

// buildAt returns the state of the build with the given number. The build must exist.
func buildAt(v *index.View, project rowstore.Identity, number uint64) (buildState, error) {
	_, value, _, err := v.NewestVersion(builds, numbered(project, number))
	if err != nil {
		return buildState{}, err
	}
	return decodeBuildState(value)
}

// routeOf returns the route of the record at seq.
func routeOf(ctx context.Context, v *index.View, seq uint64) ([]string, error) {
	e, err := v.Event(ctx, seq)
	if err != nil {
		return nil, err
	}
	p := e.PathFingerprint()
	return passages(&p), nil
}

package paths

import (
	"context"
	"fmt"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Project is a project that has paths.
type Project struct {
	Seq        uint64 // of its first record
	Name       string
	Paths      uint64
	Builds     uint64 // distinct ones; records may have none
	Collisions uint64 // paths whose path_id another path held
}

// Projects returns the projects of the ledger, the newest first record first.
func Projects(v *index.View, page index.Page) ([]Project, []byte, error) {
	return rowstore.FillBackwards(v.Reader, projects, []byte{0}, page, func(r rowstore.Version) (*Project, error) {
		p := &Project{Seq: r.Seq, Name: string(r.Value)}
		id := rowstore.Identify(r.Value)
		_, value, _, err := v.Newest(projectPaths, id[:])
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

// Collision is a path whose path_id another path held (spec: Path categories).
type Collision struct {
	Seq    uint64 // of its first record
	PathID string // the longer one that was assigned instead
	Route  []string
	Held   string // the path_id of eight digits that was held
	// HolderSeq is the first record of the path that holds it; HolderRoute is its route.
	HolderSeq   uint64
	HolderRoute []string
}

// Collisions returns the collisions of a project, newest first; ErrNotFound if there is no
// such project.
func Collisions(ctx context.Context, v *index.View, project string, page index.Page) ([]Collision, []byte, error) {
	if err := requireProject(v, project); err != nil {
		return nil, nil, err
	}
	id := rowstore.Identify([]byte(project))
	return rowstore.FillBackwards(v.Reader, projectCollisions, id[:], page, func(r rowstore.Version) (*Collision, error) {
		c := &Collision{Seq: r.Seq}
		var id []byte
		value := rowstore.ValueReader{Rest: r.Value}
		value.Numbers(&c.HolderSeq)
		value.Texts(&id)
		if err := value.Err("a collision", r.Value); err != nil {
			return nil, err
		}
		c.PathID, c.Held = string(id), string(id[:min(pathIDStep, len(id))])
		var err error
		if c.Route, err = routeOf(ctx, v, c.Seq); err != nil {
			return nil, err
		}
		c.HolderRoute, err = routeOf(ctx, v, c.HolderSeq)
		return c, err
	})
}

// Build is a build of a project.
type Build struct {
	Seq  uint64    // of its first record
	Time time.Time // of that record's event
	Name string
	// Numbers of records of the build by category.
	New, Modified, Unchanged uint64
	Paths                    uint64 // distinct ones
	Gone                     uint64 // paths of the build before that this one lacks
}

// Builds returns the builds of a project by their first record, oldest first; ErrNotFound if
// there is no such project.
func Builds(ctx context.Context, v *index.View, project string, page index.Page) ([]Build, []byte, error) {
	if err := requireProject(v, project); err != nil {
		return nil, nil, err
	}
	last, _, err := page.Position()
	if err != nil {
		return nil, nil, err
	}
	id := rowstore.Identify([]byte(project))
	count, err := numberAt(v, projectBuilds, id)
	if err != nil {
		return nil, nil, err
	}
	if last > count {
		return nil, nil, index.ErrPosition
	}
	var before buildState
	if last > 0 {
		if before, err = buildAt(v, id, last); err != nil {
			return nil, nil, err
		}
	}
	var list []Build
	for last < count && len(list) < page.Limit {
		last++
		state, err := buildAt(v, id, last)
		if err != nil {
			return nil, nil, err
		}
		e, err := v.Event(ctx, state.first)
		if err != nil {
			return nil, nil, err
		}
		c := state.categories
		list = append(list, Build{
			Seq: state.first, Time: e.Time, Name: string(e.Path().Build),
			New: c[0], Modified: c[1], Unchanged: c[2],
			Paths: state.paths, Gone: before.paths - state.kept,
		})
		before = state
	}
	if last == count {
		return list, nil, nil
	}
	return list, rowstore.AppendSeq(nil, last), nil
}

// Gone returns the paths of the previous build that a build lacks, as their first records
// there have them, newest first. A page may have fewer rows than its limit, even none: it ends
// after 20 keys for each row of the limit. It returns ErrNotFound if there is no such build.
func Gone(ctx context.Context, v *index.View, project, build string, page index.Page) ([]Row, []byte, error) {
	number, err := buildNumberOf(v, project, build)
	if err != nil {
		return nil, nil, err
	}
	before := buildRow(rowstore.Identify([]byte(project)), number-1) // number 0 is no build
	return rowstore.FillBackwards(v.Reader, builds, before, page, func(r rowstore.Version) (*Row, error) {
		state, err := decodeBuildState(r.Value)
		if err != nil || !state.addsPath {
			return nil, err
		}
		_, _, kept, err := v.Newest(buildPaths, buildRow(state.path, number))
		if err != nil || kept {
			return nil, err
		}
		path, err := pathAt(v, state.path, r.Seq+1)
		if err != nil {
			return nil, err
		}
		return readRow(ctx, v, &path)
	})
}

// requireProject returns ErrNotFound if there is no such project.
func requireProject(v *index.View, project string) error {
	id := rowstore.Identify([]byte(project))
	_, _, found, err := v.Newest(projectPaths, id[:])
	if err == nil && !found {
		err = fmt.Errorf("project %q: %w", project, ErrNotFound)
	}
	return err
}

// buildNumberOf returns the number of a build; ErrNotFound if there is none.
func buildNumberOf(v *index.View, project, build string) (uint64, error) {
	number, err := numberAt(v, buildNumbers, rowstore.Identify([]byte(project), []byte(build)))
	if err == nil && number == 0 {
		err = fmt.Errorf("build %q of project %q: %w", build, project, ErrNotFound)
	}
	return number, err
}

// numberAt returns the value of a row that is one number; 0 if there is none.
func numberAt(v *index.View, d rowstore.Dimension, row rowstore.Identity) (uint64, error) {
	_, value, found, err := v.Newest(d, row[:])
	if err != nil || !found {
		return 0, err
	}
	return rowstore.DecodeNumber(value)
}

// buildAt returns the state of an existing build.
func buildAt(v *index.View, project rowstore.Identity, number uint64) (buildState, error) {
	_, value, _, err := v.Newest(builds, buildRow(project, number))
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
	p := e.Path()
	return passages(&p), nil
}

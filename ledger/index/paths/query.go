package paths

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// ErrNotFound means that there is no such project, build, or path.
var ErrNotFound = errors.New("index: no such project, build, or path exists")

// Path is the state of a path after its latest record, either across all builds or in a single
// build (spec: Path categories).
type Path struct {
	Status
	Seq uint64 // seq of the record
	// ContentFingerprint and RawContentFingerprint are empty if the fingerprint is null.
	ContentFingerprint, RawContentFingerprint string
	HashVersion                               string  // hash_version of the fingerprints
	Build                                     *string // nil if the record names no build
}

// Status is the status of one record of a path, which the index derives from the events.
type Status struct {
	PathID   string   // as assigned by the index: 8 hexadecimal digits, or more after a collision
	Category Category // how the record compares with another record of its path
	// Validated is the value of the last validation that applies to the record, or false if there
	// is none.
	Validated bool
	// EarlierValidationSeq is the seq of an earlier validation of the same content that does not apply
	// to the record, or 0 if there is none.
	EarlierValidationSeq uint64
	// OnlyLinksChanged is true if the content differs from the compared record's only in its links.
	OnlyLinksChanged bool
	// HasOtherBase is true if the record names a base or branch other than its build's.
	HasOtherBase bool
}

// ListedPath is a path with the time and route of its record's event.
type ListedPath struct {
	Path
	Time  time.Time // time of the record's event
	Route []string  // names of the path's passages, in order
}

// Version is the state of a path after one of its records, or after a validation of its fingerprint
// in a build.
type Version struct {
	ListedPath // for a validation, Route is nil and Time is the time of the validation
	// EventSeq is the seq of the record or validation, and Kind is its kind.
	EventSeq uint64
	Kind     record.Kind
	Reason   string // reason of a validation; empty if there is none
}

// Filter selects paths of a project. The zero Filter selects all paths.
type Filter struct {
	Category  Category // one of Categories; empty means all
	Validated *bool    // selects paths with this Status.Validated; nil means all
	Build     *string  // nil means that each path is shown as of its latest record in any build
}

// Get returns the path of a project that has the given path_id. The path is shown as of its latest
// record or, if build is not nil, as of its latest record in that build. Get returns false if there
// is no such path.
func Get(v *index.View, project, pathID string, build *string) (Path, bool, error) {
	path, found, err := pathByID(v, project, pathID)
	if err != nil || !found {
		return Path{}, false, err
	}
	var state *pathState
	if build == nil {
		state, err = latestAt(v, path, v.Size())
	} else {
		var number uint64
		if number, err = numberAt(v, buildNumbers, buildID(project, *build)); err == nil && number > 0 {
			state, err = findState(v, path, number, v.Size())
		}
	}
	if err != nil || state == nil {
		return Path{}, false, err
	}
	row, err := newReader(v, project).path(path, state, v.Size())
	return row, true, err
}

// StatusOf returns the status that a path has after the path fingerprint at seq. It returns
// ErrNotFound if the event has another kind or is not below the view's size.
func StatusOf(ctx context.Context, v *index.View, seq uint64) (Status, error) {
	e, err := v.Event(ctx, seq)
	if err != nil {
		return Status{}, err
	}
	if seq >= v.Size() || e.Kind != record.KindPathFingerprint {
		return Status{}, fmt.Errorf("reading event %d as a path fingerprint: %w", seq, ErrNotFound)
	}
	p := e.PathFingerprint()
	path := rowstore.IdentityOf(p.Project, p.Route)
	state, err := latestAt(v, path, seq+1)
	if err != nil {
		return Status{}, err
	}
	change, err := changeAt(v, rowstore.IdentityOf(p.Project), path, state, seq+1)
	return change, err
}

// List returns the paths of a project, or of one of its builds, sorted by their first record in the
// project or build, newest first. A page may have fewer rows than its limit, or none, because it
// ends after reading 20 keys for each requested row. List returns ErrNotFound if there is no such
// project or build.
func List(ctx context.Context, v *index.View, project string, filter Filter, page index.PageRequest) ([]ListedPath, []byte, error) {
	if err := requireProject(v, project); err != nil {
		return nil, nil, err
	}
	r := newReader(v, project)
	take := func(path rowstore.Identity, state *pathState) (*ListedPath, error) {
		if filter.Category != "" && filter.Category != Categories[state.category] {
			return nil, nil
		}
		row, err := r.path(path, state, v.Size())
		if err != nil || filter.Validated != nil && *filter.Validated != row.Validated {
			return nil, err
		}
		return r.complete(ctx, row)
	}
	if filter.Build != nil {
		build, err := buildNumberOf(v, project, *filter.Build)
		if err != nil {
			return nil, nil, err
		}
		return r.inBuild(build, page, take)
	}
	return rowstore.PageNewestFirst(v.Reader, projectPaths, r.project[:], page, func(version rowstore.Version) (*ListedPath, error) {
		paths, err := decodeProjectState(version.Value)
		if err != nil {
			return nil, err
		}
		state, err := latestAt(v, paths.path, v.Size())
		if err != nil {
			return nil, err
		}
		return take(paths.path, state)
	})
}

// inBuild returns a page of the paths of a build, each as of its latest record in the build. The
// paths are sorted by their first record in the build, newest first. take converts a path to a row,
// or returns nil to leave it out.
func (r *reader) inBuild(build uint64, page index.PageRequest, take func(rowstore.Identity, *pathState) (*ListedPath, error)) ([]ListedPath, []byte, error) {
	return rowstore.PageNewestFirst(r.v.Reader, builds, numbered(r.project, build), page, func(version rowstore.Version) (*ListedPath, error) {
		counts, err := decodeBuildState(version.Value)
		if err != nil || !counts.addsPath {
			return nil, err
		}
		state, err := stateAt(r.v, counts.path, build, r.v.Size())
		if err != nil {
			return nil, err
		}
		return take(counts.path, state)
	})
}

// History returns the records and validations of a path, oldest first. It returns ErrNotFound
// if no path of the project has the path_id.
func History(ctx context.Context, v *index.View, project, pathID string, page index.PageRequest) ([]Version, []byte, error) {
	path, found, err := pathByID(v, project, pathID)
	if err != nil {
		return nil, nil, err
	}
	if !found {
		return nil, nil, fmt.Errorf("looking up path %q of project %q: %w", pathID, project, ErrNotFound)
	}
	r := newReader(v, project)
	return rowstore.PageOldestFirst(v.Reader, pathVersions, path[:], page, func(at rowstore.Version) (*Version, error) {
		of, err := decodePathVersion(at.Value)
		if err != nil {
			return nil, err
		}
		build, kind := of.latest, record.KindPathFingerprint
		if of.validates {
			build, kind = of.validated, record.KindPathValidated
		}
		state, err := stateAt(v, path, build, at.Seq+1)
		if err != nil {
			return nil, err
		}
		row, err := r.path(path, state, at.Seq+1)
		if err != nil {
			return nil, err
		}
		if !of.validates {
			recorded, err := r.complete(ctx, row)
			if err != nil {
				return nil, err
			}
			return &Version{ListedPath: *recorded, EventSeq: at.Seq, Kind: kind}, nil
		}
		e, err := v.Event(ctx, at.Seq)
		if err != nil {
			return nil, err
		}
		version := &Version{ListedPath: ListedPath{Path: row, Time: e.Time}, EventSeq: at.Seq, Kind: kind}
		version.Reason = string(e.PathValidation().Reason)
		return version, nil
	})
}

// pathByID returns the path with the given path_id. It returns false if there is no such path.
func pathByID(v *index.View, project, pathID string) (path rowstore.Identity, found bool, err error) {
	id := rowstore.IdentityOf([]byte(project), []byte(pathID))
	_, value, found, err := v.NewestVersion(pathHolders, id[:])
	if err != nil || !found {
		return path, false, err
	}
	r := rowstore.ValueReader{Rest: value}
	r.ReadIdentity(&path)
	return path, true, r.Finish("a path_id", value)
}

// latestAt returns the state of a path after its latest record among the first size events. It
// returns ErrDamaged if there is no such record.
func latestAt(v *index.View, path rowstore.Identity, size uint64) (*pathState, error) {
	_, value, found, err := v.NewestVersionBelow(pathVersions, path[:], size)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%w: path %x has no version", rowstore.ErrDamaged, path)
	}
	version, err := decodePathVersion(value)
	if err != nil {
		return nil, err
	}
	return stateAt(v, path, version.latest, size)
}

// stateAt returns the state of a path after its latest record in a build among the first size
// events. It returns ErrDamaged if there is no such record. The caller owns the state.
func stateAt(v *index.View, path rowstore.Identity, build, size uint64) (*pathState, error) {
	state, err := findState(v, path, build, size)
	if err == nil && state == nil {
		err = fmt.Errorf("%w: path %x has no state in build %d", rowstore.ErrDamaged, path, build)
	}
	return state, err
}

// findState is like stateAt, but returns nil if there is no such record.
func findState(v *index.View, path rowstore.Identity, build, size uint64) (*pathState, error) {
	_, value, found, err := v.NewestVersionBelow(pathStates, numbered(path, build), size)
	if err != nil || !found {
		return nil, err
	}
	state, err := decodePathState(append([]byte(nil), value...))
	return &state, err
}

// reader reads rows about the paths of one project.
type reader struct {
	v       *index.View
	project rowstore.Identity
	names   map[uint64]*string // names of builds, by number
}

func newReader(v *index.View, project string) *reader {
	return &reader{v: v, project: rowstore.IdentityOf([]byte(project)), names: make(map[uint64]*string)}
}

// path converts the state of a path to a Path. Its status is derived from the first size events.
func (r *reader) path(path rowstore.Identity, s *pathState, size uint64) (Path, error) {
	change, err := changeAt(r.v, r.project, path, s, size)
	if err != nil {
		return Path{}, err
	}
	build, err := r.buildName(s.build)
	return Path{Status: change, Seq: s.record, Build: build,
		ContentFingerprint: string(s.content), RawContentFingerprint: string(s.raw), HashVersion: string(s.version)}, err
}

// buildName returns the name of a build, or nil for number 0.
func (r *reader) buildName(number uint64) (*string, error) {
	if number == 0 {
		return nil, nil
	}
	if name := r.names[number]; name != nil {
		return name, nil
	}
	l, err := lineAt(r.v, r.project, number)
	name := string(l.name)
	r.names[number] = &name
	return &name, err
}

func changeAt(v *index.View, project, path rowstore.Identity, s *pathState, size uint64) (Status, error) {
	validations, err := validationStatusOf(v, project, path, s, size)
	return Status{
		PathID: string(s.id), Category: Categories[s.category], OnlyLinksChanged: s.onlyLinksChanged, HasOtherBase: s.otherBase,
		Validated: validations.validated, EarlierValidationSeq: validations.before,
	}, err
}

// complete returns the row of a path, with the time and route from its record's event.
func (r *reader) complete(ctx context.Context, p Path) (*ListedPath, error) {
	e, err := r.v.Event(ctx, p.Seq)
	if err != nil {
		return nil, err
	}
	of := e.PathFingerprint()
	return &ListedPath{Path: p, Time: e.Time, Route: passages(&of)}, nil
}

// passages returns the names of a route's passages. The list is never nil.
func passages(p *event.PathFingerprint) []string {
	names := make([]string, len(p.Passages))
	for i, name := range p.Passages {
		names[i] = string(name)
	}
	return names
}

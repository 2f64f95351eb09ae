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

// ErrNotFound: there is no such project, build, or path.
var ErrNotFound = errors.New("index: no such path")

// Path is a path after its latest record (spec: Path categories).
type Path struct {
	Change
	Seq uint64 // of the record
	// Fingerprints are empty for null.
	ContentFingerprint, RawContentFingerprint string
}

// Change is what follows from a record of a path and the events before it.
type Change struct {
	PathID   string // as assigned: 8 hexadecimal digits, or more after a collision
	Category Category
	// Validated is the result of the path's validations.
	Validated bool
	// LinksChanged: the content differs only in its links.
	LinksChanged bool
}

// Row is a path with what its latest record's event says.
type Row struct {
	Path
	Time  time.Time // of the record's event
	Route []string
	Build *string // nil for null
}

// Version is a path after a record, or after a validation of its current fingerprint.
type Version struct {
	Row // for a validation, Route and Build are nil
	// Event is the seq of that event, Kind its kind.
	Event  uint64
	Kind   record.Kind
	Reason string // of a validation; empty if none was given
}

// Filter selects paths of a project. Its zero value selects all.
type Filter struct {
	Category  Category
	Validated *bool
	Build     *string // of the path's latest record
}

// Get returns the path of a project that holds a path_id; false if none does.
func Get(v *index.View, project, pathID string) (Path, bool, error) {
	_, state, err := pathByID(v, project, pathID)
	if err != nil || state == nil {
		return Path{}, false, err
	}
	return state.path(), true, nil
}

// ChangeOf returns what follows from the path fingerprint at seq; ErrNotFound if the event is
// of another kind or the view does not see it.
func ChangeOf(ctx context.Context, v *index.View, seq uint64) (Change, error) {
	e, err := v.Event(ctx, seq)
	if err != nil {
		return Change{}, err
	}
	if seq >= v.Size() || e.Kind != record.PathFingerprint {
		return Change{}, fmt.Errorf("event %d as a path fingerprint: %w", seq, ErrNotFound)
	}
	p := e.Path()
	state, err := pathAt(v, rowstore.Identify(p.Project, p.Route), seq+1)
	return state.path().Change, err
}

// List returns the paths of a project after their latest records, the newest first record
// first. A page may have fewer rows than its limit, even none: it ends after 20 keys for each
// row of the limit. It returns ErrNotFound if there is no such project, or no such build of
// it.
func List(ctx context.Context, v *index.View, project string, filter Filter, page index.Page) ([]Row, []byte, error) {
	if err := requireProject(v, project); err != nil {
		return nil, nil, err
	}
	var build uint64
	if filter.Build != nil {
		var err error
		if build, err = buildNumberOf(v, project, *filter.Build); err != nil {
			return nil, nil, err
		}
	}
	id := rowstore.Identify([]byte(project))
	return rowstore.FillBackwards(v.Reader, projectPaths, id[:], page, func(r rowstore.Version) (*Row, error) {
		paths, err := decodeProjectState(r.Value)
		if err != nil {
			return nil, err
		}
		state, err := pathAt(v, paths.path, v.Size())
		if err != nil || !filter.has(&state) || filter.Build != nil && state.build != build {
			return nil, err
		}
		return readRow(ctx, v, &state)
	})
}

func (f *Filter) has(s *pathState) bool {
	return (f.Category == "" || f.Category == Categories[s.category]) &&
		(f.Validated == nil || *f.Validated == s.validated)
}

// History returns the records and validations of a path, oldest first. It returns ErrNotFound
// if no path of the project holds the path_id.
func History(ctx context.Context, v *index.View, project, pathID string, page index.Page) ([]Version, []byte, error) {
	path, state, err := pathByID(v, project, pathID)
	if err != nil {
		return nil, nil, err
	}
	if state == nil {
		return nil, nil, fmt.Errorf("path %q of project %q: %w", pathID, project, ErrNotFound)
	}
	return rowstore.FillForwards(v.Reader, pathStates, path[:], page, func(r rowstore.Version) (*Version, error) {
		state, err := decodePathState(r.Value)
		if err != nil {
			return nil, err
		}
		if r.Seq == state.record {
			recorded, err := readRow(ctx, v, &state)
			if err != nil {
				return nil, err
			}
			return &Version{Row: *recorded, Event: r.Seq, Kind: record.PathFingerprint}, nil
		}
		version := &Version{Row: Row{Path: state.path()}, Event: r.Seq, Kind: record.PathValidated}
		e, err := v.Event(ctx, r.Seq)
		if err != nil {
			return nil, err
		}
		version.Time, version.Reason = e.Time, string(e.Validation().Reason)
		return version, nil
	})
}

// pathByID returns the path that holds a path_id, and its state; nil if none does.
func pathByID(v *index.View, project, pathID string) (rowstore.Identity, *pathState, error) {
	id := rowstore.Identify([]byte(project), []byte(pathID))
	_, value, found, err := v.Newest(pathHolders, id[:])
	if err != nil || !found {
		return rowstore.Identity{}, nil, err
	}
	var path rowstore.Identity
	r := rowstore.ValueReader{Rest: value}
	if r.Identity(&path); r.Bad {
		return rowstore.Identity{}, nil, r.Err("a path_id", value)
	}
	state, err := pathAt(v, path, v.Size())
	return path, &state, err
}

// pathAt returns the state of a path as of a size; the path must have one. The caller owns it.
func pathAt(v *index.View, path rowstore.Identity, size uint64) (pathState, error) {
	_, value, found, err := v.NewestBelow(pathStates, path[:], size)
	if err != nil {
		return pathState{}, err
	}
	if !found {
		return pathState{}, fmt.Errorf("%w: path %x has no state", rowstore.ErrDamaged, path)
	}
	return decodePathState(append([]byte(nil), value...))
}

func (s *pathState) path() Path {
	return Path{
		Change: Change{
			PathID: string(s.id), Category: Categories[s.category], Validated: s.validated, LinksChanged: s.linksChanged,
		},
		Seq:                s.record,
		ContentFingerprint: string(s.content), RawContentFingerprint: string(s.raw),
	}
}

// readRow completes a state from the event of its record.
func readRow(ctx context.Context, v *index.View, s *pathState) (*Row, error) {
	e, err := v.Event(ctx, s.record)
	if err != nil {
		return nil, err
	}
	p := e.Path()
	r := &Row{Path: s.path(), Time: e.Time, Route: passages(&p)}
	if p.Build != nil {
		build := string(p.Build)
		r.Build = &build
	}
	return r, nil
}

// passages returns the names of a route, which may be none.
func passages(p *event.Path) []string {
	names := make([]string, len(p.Passages))
	for i, name := range p.Passages {
		names[i] = string(name)
	}
	return names
}

package index

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// ErrNoPath: there is no such project, build or path.
var ErrNoPath = errors.New("index: no such path")

// Path is a path as its latest record says, with what follows from those before
// it (1.6).
type Path struct {
	PathChange
	Seq uint64 // of the record
	// Fingerprints are empty for null.
	ContentFingerprint, RawContentFingerprint string
}

// PathChange is what follows from all that came before a record of a path.
type PathChange struct {
	PathID   string // the assigned one: 8 hex digits, more where those are held
	Category Category
	// Validated is what the path's validations made of it.
	Validated bool
	// LinksChanged: the content is the same but for its links.
	LinksChanged bool
}

// PathRow is a path with what the event of its record says.
type PathRow struct {
	Path
	Time  time.Time // of the record's event
	Route []string
	Build *string // nil for null
}

// PathVersion is what an event made of a path: a record, or a validation that was
// of the path's content.
type PathVersion struct {
	PathRow // of a validation Route and Build are nil
	// Event is the seq of the event, of that kind.
	Event  uint64
	Kind   record.Kind
	Reason string // of a validation; empty if none was given
}

// PathFilter chooses among the paths of a project. What is not set chooses all.
type PathFilter struct {
	Category  Category
	Validated *bool
	Build     *string // that of the path's latest record
}

// PathsGet is the path of a project that has that path_id; false if none has.
func PathsGet(v *View, project, pathID string) (Path, bool, error) {
	_, state, err := pathByID(v, project, pathID)
	if err != nil || state == nil {
		return Path{}, false, err
	}
	return state.path(), true, nil
}

// PathsChangeOf is what follows from all that came before event seq, which is a path
// fingerprint; ErrNoPath if it is another kind of event.
func PathsChangeOf(ctx context.Context, v *View, seq uint64) (PathChange, error) {
	e, err := v.Event(ctx, seq)
	if err != nil {
		return PathChange{}, err
	}
	if seq >= v.Size() || e.Kind != record.PathFingerprint {
		return PathChange{}, fmt.Errorf("event %d as a path fingerprint: %w", seq, ErrNoPath)
	}
	p := e.Path()
	state, err := pathAt(v, rowstore.Identify(p.Project, p.Route), seq+1)
	return state.path().PathChange, err
}

// PathsList are the paths of a project as their latest records say, in the reverse
// order of first appearance. A page may have fewer rows than its limit, even none,
// before the end: it stops after 20 keys for each row of the limit.
// ErrNoPath if there is no such project, or no such build of it.
func PathsList(ctx context.Context, v *View, project string, filter PathFilter, page Page) ([]PathRow, []byte, error) {
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
	return rowstore.FillBackwards(v.Reader, projectPaths, id[:], page, func(r rowstore.Version) (*PathRow, error) {
		paths, err := decodePathsState(r.Value)
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

func (f *PathFilter) has(s *pathState) bool {
	return (f.Category == "" || f.Category == Categories[s.category]) &&
		(f.Validated == nil || *f.Validated == s.validated)
}

// PathsHistory is what the records and validations of a path made of it, the oldest
// first. ErrNoPath if no path of the project has that path_id.
func PathsHistory(ctx context.Context, v *View, project, pathID string, page Page) ([]PathVersion, []byte, error) {
	path, state, err := pathByID(v, project, pathID)
	if err != nil {
		return nil, nil, err
	}
	if state == nil {
		return nil, nil, fmt.Errorf("path %q of project %q: %w", pathID, project, ErrNoPath)
	}
	return rowstore.FillForwards(v.Reader, pathStates, path[:], page, func(r rowstore.Version) (*PathVersion, error) {
		state, err := decodePathState(r.Value)
		if err != nil {
			return nil, err
		}
		if r.Seq == state.record {
			recorded, err := readRow(ctx, v, &state)
			if err != nil {
				return nil, err
			}
			return &PathVersion{PathRow: *recorded, Event: r.Seq, Kind: record.PathFingerprint}, nil
		}
		version := &PathVersion{PathRow: PathRow{Path: state.path()}, Event: r.Seq, Kind: record.PathValidated}
		e, err := v.Event(ctx, r.Seq)
		if err != nil {
			return nil, err
		}
		version.Time, version.Reason = e.Time, string(e.Validation().Reason)
		return version, nil
	})
}

// pathByID is the path that holds a path_id, and its state; nil if none does.
func pathByID(v *View, project, pathID string) (rowstore.Identity, *pathState, error) {
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

// pathAt is the state of a path that has one at a size, for the caller to keep.
func pathAt(v *View, path rowstore.Identity, size uint64) (pathState, error) {
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
		PathChange: PathChange{
			PathID: string(s.id), Category: Categories[s.category], Validated: s.validated, LinksChanged: s.linksChanged,
		},
		Seq:                s.record,
		ContentFingerprint: string(s.content), RawContentFingerprint: string(s.raw),
	}
}

// readRow completes a state from the event of its record.
func readRow(ctx context.Context, v *View, s *pathState) (*PathRow, error) {
	e, err := v.Event(ctx, s.record)
	if err != nil {
		return nil, err
	}
	p := e.Path()
	r := &PathRow{Path: s.path(), Time: e.Time, Route: passages(&p)}
	if p.Build != nil {
		build := string(p.Build)
		r.Build = &build
	}
	return r, nil
}

// passages is a route as its names, which may be none.
func passages(p *event.Path) []string {
	names := make([]string, len(p.Passages))
	for i, name := range p.Passages {
		names[i] = string(name)
	}
	return names
}

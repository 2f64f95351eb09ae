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

// ErrNotFound: there is no such project, build or path.
var ErrNotFound = errors.New("index: no such path")

// Path is a path as its latest record says, with what follows from those before
// it (spec: Path categories).
type Path struct {
	Change
	Seq uint64 // of the record
	// Fingerprints are empty for null.
	ContentFingerprint, RawContentFingerprint string
}

// Change is what follows from all that came before a record of a path.
type Change struct {
	PathID   string // the assigned one: 8 hex digits, more where those are held
	Category Category
	// Validated is what the path's validations made of it.
	Validated bool
	// LinksChanged: the content is the same but for its links.
	LinksChanged bool
}

// Row is a path with what the event of its record says.
type Row struct {
	Path
	Time  time.Time // of the record's event
	Route []string
	Build *string // nil for null
}

// Version is what an event made of a path: a record, or a validation that was
// of the path's content.
type Version struct {
	Row // of a validation Route and Build are nil
	// Event is the seq of the event, of that kind.
	Event  uint64
	Kind   record.Kind
	Reason string // of a validation; empty if none was given
}

// Filter chooses among the paths of a project. What is not set chooses all.
type Filter struct {
	Category  Category
	Validated *bool
	Build     *string // that of the path's latest record
}

// Get is the path of a project that has that path_id; false if none has.
func Get(v *index.View, project, pathID string) (Path, bool, error) {
	_, state, err := pathByID(v, project, pathID)
	if err != nil || state == nil {
		return Path{}, false, err
	}
	return state.path(), true, nil
}

// ChangeOf is what follows from all that came before event seq, which is a path
// fingerprint; ErrNoPath if it is another kind of event.
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

// List are the paths of a project as their latest records say, in the reverse
// order of first appearance. A page may have fewer rows than its limit, even none,
// before the end: it stops after 20 keys for each row of the limit.
// ErrNoPath if there is no such project, or no such build of it.
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

// History is what the records and validations of a path made of it, the oldest
// first. ErrNoPath if no path of the project has that path_id.
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

// pathByID is the path that holds a path_id, and its state; nil if none does.
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

// pathAt is the state of a path that has one at a size, for the caller to keep.
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

// passages is a route as its names, which may be none.
func passages(p *event.Path) []string {
	names := make([]string, len(p.Passages))
	for i, name := range p.Passages {
		names[i] = string(name)
	}
	return names
}

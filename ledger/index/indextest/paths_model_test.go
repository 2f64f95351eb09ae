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

// naiveProject is a project computed by walking over events (spec: Path categories; Path id
// collisions; Builds).
type naiveProject struct {
	name   string
	first  uint64
	paths  []*naivePath // in order of first appearance
	builds []string     // in order of first appearance
}

type naivePath struct {
	joined   string
	id       string
	versions []paths.Version
}

func (p *naivePath) now() paths.Version { return p.versions[len(p.versions)-1] }

// naiveEvent is what events about paths say.
type naiveEvent struct {
	Kind   record.Kind
	Time   time.Time
	Record struct {
		Project   string
		Build     *string
		Route     []string
		PathID    string  `json:"path_id"`
		Content   *string `json:"content_fingerprint"`
		Validated bool
		Reason    string
		Hashes    struct {
			Content *string `json:"content_fingerprint"`
			Raw     *string `json:"raw_content_fingerprint"`
		}
	}
}

// naiveProjects returns all projects of the entries.
func naiveProjects(t tester, entries [][]byte) []*naiveProject {
	t.Helper()
	var all []*naiveProject
	for seq, entry := range entries {
		var e naiveEvent
		require.NoError(t, json.Unmarshal(entry[32:], &e))
		p := findProject(all, e.Record.Project)
		switch e.Kind {
		case record.PathFingerprint:
			if p == nil {
				p = &naiveProject{name: e.Record.Project, first: uint64(seq)}
				all = append(all, p)
			}
			p.record(uint64(seq), &e)
		case record.PathValidated:
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

func (p *naiveProject) record(seq uint64, e *naiveEvent) {
	if b := e.Record.Build; b != nil && !slices.Contains(p.builds, *b) {
		p.builds = append(p.builds, *b)
	}
	joined := strings.Join(e.Record.Route, " → ")
	v := paths.Version{Event: seq, Kind: e.Kind}
	v.Seq, v.Time, v.Build, v.Route = seq, e.Time, e.Record.Build, e.Record.Route
	v.ContentFingerprint, v.RawContentFingerprint = orEmpty(e.Record.Hashes.Content), orEmpty(e.Record.Hashes.Raw)
	var path *naivePath
	for _, candidate := range p.paths {
		if candidate.joined == joined {
			path = candidate
		}
	}
	switch {
	case path == nil:
		sum := md5.Sum([]byte(joined))
		path = &naivePath{joined: joined}
		for digits := 8; path.id == ""; digits += 8 {
			if id := hex.EncodeToString(sum[:])[:digits]; p.byID(id) == nil {
				path.id = id
			}
		}
		p.paths = append(p.paths, path)
		v.Category = paths.New
	case path.now().ContentFingerprint != v.ContentFingerprint:
		v.Category = paths.Modified
	default:
		before := path.now()
		v.Category, v.Validated = paths.Unchanged, before.Validated
		v.LinksChanged = v.ContentFingerprint != "" && v.RawContentFingerprint != "" && before.RawContentFingerprint != "" &&
			v.RawContentFingerprint != before.RawContentFingerprint
	}
	v.PathID = path.id
	path.versions = append(path.versions, v)
}

func (p *naiveProject) validate(seq uint64, e *naiveEvent) {
	path := p.byID(e.Record.PathID)
	if path == nil || path.now().ContentFingerprint != orEmpty(e.Record.Content) {
		return
	}
	v := paths.Version{Row: paths.Row{Path: path.now().Path, Time: e.Time}, Event: seq, Kind: e.Kind, Reason: e.Record.Reason}
	v.Validated = e.Record.Validated
	path.versions = append(path.versions, v)
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// current returns a path after its latest record and validations.
func (p *naivePath) current() paths.Row {
	var row paths.Row
	for _, v := range p.versions {
		if v.Kind == record.PathFingerprint {
			row = v.Row
		}
	}
	row.Validated = p.now().Validated
	return row
}

func (p *naiveProject) current(f paths.Filter) []paths.Row {
	var rows []paths.Row
	for _, path := range slices.Backward(p.paths) {
		row := path.current()
		if (f.Category == "" || f.Category == row.Category) && (f.Validated == nil || *f.Validated == row.Validated) &&
			(f.Build == nil || row.Build != nil && *f.Build == *row.Build) {
			rows = append(rows, row)
		}
	}
	return rows
}

// in returns the first record of each path in a build.
func (p *naiveProject) in(build string) []paths.Row {
	var rows []paths.Row
	for _, path := range p.paths {
		for _, v := range path.versions {
			if v.Build != nil && *v.Build == build {
				rows = append(rows, v.Row)
				break
			}
		}
	}
	return rows
}

func (p *naiveProject) gone(build string) []paths.Row {
	i := slices.Index(p.builds, build)
	if i == 0 {
		return nil
	}
	var rows []paths.Row
	here := p.in(build)
	for _, row := range p.in(p.builds[i-1]) {
		if !slices.ContainsFunc(here, func(r paths.Row) bool { return r.PathID == row.PathID }) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b paths.Row) int { return int(b.Seq) - int(a.Seq) })
	return rows
}

func (p *naiveProject) buildList() []paths.Build {
	var list []paths.Build
	for _, name := range p.builds {
		b := paths.Build{Name: name, Paths: uint64(len(p.in(name))), Gone: uint64(len(p.gone(name)))}
		for _, path := range p.paths {
			for _, v := range path.versions {
				if v.Build == nil || *v.Build != name {
					continue
				}
				if b.Seq == 0 || v.Event < b.Seq {
					b.Seq, b.Time = v.Event, v.Time
				}
				switch v.Category {
				case paths.New:
					b.New++
				case paths.Modified:
					b.Modified++
				case paths.Unchanged:
					b.Unchanged++
				}
			}
		}
		list = append(list, b)
	}
	return list
}

func (p *naiveProject) collisions() []paths.Collision {
	var list []paths.Collision
	for _, path := range slices.Backward(p.paths) {
		if len(path.id) == 8 {
			continue
		}
		holder := p.byID(path.id[:8]).versions[0]
		list = append(list, paths.Collision{Seq: path.versions[0].Seq, PathID: path.id, Route: path.versions[0].Route,
			Held: holder.PathID, HolderSeq: holder.Seq, HolderRoute: holder.Route})
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

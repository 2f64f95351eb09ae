package paths

import (
	"bytes"
	"context"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// CategoryGone is the category of a path that build A has and build B lacks.
const CategoryGone Category = "gone"

// Difference describes how a path differs between two builds, A and B (spec: Comparing
// builds).
type Difference struct {
	PathID           string
	Route            []string // names of the path's passages, in order
	Category         Category // category of the path in B, compared with A
	OnlyLinksChanged bool     // whether the contents in A and B differ only in their links
	A, B             *Path    // the path in each build; nil if the build lacks the path
	// RenameCandidates is set only if exactly one build has the path. It lists at most maxRenames paths that
	// have the same content but exist only in the other build. The path may have been renamed to or
	// from one of them.
	RenameCandidates []RenameCandidate
}

// RenameCandidate is a path whose route differs between the builds but whose content does not.
type RenameCandidate struct {
	PathID string   // path_id of the candidate
	Seq    uint64   // seq of the path's record
	Route  []string // names of the path's passages, in order
}

// Limits of the search for renamed paths.
const (
	maxRenames     = 5
	maxRecordsRead = 20 // maximum number of records with the same content that the search reads
)

// ComparisonQuery selects the two builds of a project to compare.
type ComparisonQuery struct {
	Project, BuildA, BuildB string   // names of the project and of the two builds
	Category                Category // one of Categories, or CategoryGone; empty means all
}

// onlyInA is the first byte of a page position that lies among the paths that only A has. Compare
// lists these paths after all paths of B.
const onlyInA = 1

// Compare compares the paths of two builds. It returns first the paths of B and then those that
// only A has, both sorted by first record, newest first. As with List, a page may have fewer rows
// than its limit, or none. Compare returns ErrNotFound if there is no such project or build.
func Compare(ctx context.Context, v *index.View, q ComparisonQuery, page index.PageRequest) ([]Difference, []byte, error) {
	if err := requireProject(v, q.Project); err != nil {
		return nil, nil, err
	}
	a, err := buildNumberOf(v, q.Project, q.BuildA)
	if err != nil {
		return nil, nil, err
	}
	b, err := buildNumberOf(v, q.Project, q.BuildB)
	if err != nil {
		return nil, nil, err
	}
	c := comparison{reader: newReader(v, q.Project), ctx: ctx, name: q.Project, a: a, b: b, category: q.Category}
	rest, gone := bytes.CutPrefix(page.After, []byte{onlyInA})
	if len(page.After) == rowstore.SeqSize { // a position among the paths of B
		rest, gone = page.After, false
	}
	if gone || q.Category == CategoryGone {
		if page.After = rest; len(rest) == 0 {
			page.After = nil
		}
		list, next, err := c.page(a, true, page)
		if next != nil {
			next = append([]byte{onlyInA}, next...)
		}
		return list, next, err
	}
	list, next, err := c.page(b, false, page)
	if next == nil && q.Category == "" && err == nil {
		next = []byte{onlyInA}
	}
	return list, next, err
}

// comparison compares two builds path by path.
type comparison struct {
	*reader
	ctx      context.Context
	name     string // name of the project
	a, b     uint64
	category Category
}

// page returns a page of the paths of B or, if gone is true, of the paths of A that B lacks. of is
// the number of the build whose paths are read.
func (c *comparison) page(of uint64, gone bool, page index.PageRequest) ([]Difference, []byte, error) {
	return rowstore.PageNewestFirst(c.v.Reader, builds, numbered(c.project, of), page, func(version rowstore.Version) (*Difference, error) {
		counts, err := decodeBuildState(version.Value)
		if err != nil || !counts.addsPath {
			return nil, err
		}
		return c.difference(counts.path, gone)
	})
}

// difference compares a path of B with the same path in A. If wantGone is true, it instead
// describes a path of A that B lacks. It returns nil if the path is not part of the answer.
func (c *comparison) difference(path rowstore.Identity, wantGone bool) (*Difference, error) {
	before, err := findState(c.v, path, c.a, c.v.Size())
	if err != nil {
		return nil, err
	}
	after, err := findState(c.v, path, c.b, c.v.Size())
	if err != nil || wantGone && after != nil {
		return nil, err
	}
	d := &Difference{}
	shown := after
	switch {
	case after == nil:
		d.Category, shown = CategoryGone, before
	default:
		compared := *after
		compared.onlyLinksChanged = false
		compared.compare(before, nil)
		d.Category, d.OnlyLinksChanged = Categories[compared.category], compared.onlyLinksChanged
	}
	if c.category != "" && c.category != d.Category {
		return nil, nil
	}
	if d.A, err = c.side(path, before); err != nil {
		return nil, err
	}
	if d.B, err = c.side(path, after); err != nil {
		return nil, err
	}
	d.PathID = string(shown.id)
	if d.Route, err = routeOf(c.ctx, c.v, shown.record); err != nil {
		return nil, err
	}
	switch d.Category {
	case CategoryNew:
		d.RenameCandidates, err = c.renamed(shown, c.a, c.b)
	case CategoryGone:
		d.RenameCandidates, err = c.renamed(shown, c.b, c.a)
	}
	return d, err
}

func (c *comparison) side(path rowstore.Identity, s *pathState) (*Path, error) {
	if s == nil {
		return nil, nil
	}
	p, err := c.path(path, s, c.v.Size())
	return &p, err
}

// renamed returns paths that have the same fingerprint as shown, exist in build number in, and are
// missing from build number notIn.
func (c *comparison) renamed(shown *pathState, in, notIn uint64) (found []RenameCandidate, err error) {
	if shown.content == nil {
		return nil, nil
	}
	tried := make(map[rowstore.Identity]bool)
	steps := 0
	for version, err := range c.v.VersionsNewestFirst(contents, shown.contentRow([]byte(c.name), in), c.v.Size()) {
		if steps++; err != nil || steps > maxRecordsRead || len(found) == maxRenames {
			return found, err
		}
		var path rowstore.Identity
		if copy(path[:], version.Value); tried[path] {
			continue
		}
		tried[path] = true
		there, err := findState(c.v, path, in, c.v.Size())
		if err != nil {
			return nil, err
		}
		here, err := findState(c.v, path, notIn, c.v.Size())
		if err != nil {
			return nil, err
		}
		if here != nil || there == nil || !there.sameFingerprint(shown) {
			continue
		}
		route, err := routeOf(c.ctx, c.v, there.record)
		if err != nil {
			return nil, err
		}
		found = append(found, RenameCandidate{PathID: string(there.id), Seq: there.record, Route: route})
	}
	return found, nil
}

// Package paths indexes path fingerprints and answers queries about them, by project and build
// (spec: Path categories).
package paths

import (
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Dimensions of paths (spec: Path categories). In a key, a path is represented by the
// rowstore.Identity of its project and its joined route, and a project by the Identity of its name.
// The builds of a project are numbered from 1; number 0 stands for the records without a build.
const (
	// pathVersions has one row per path; the row gains a version for each record and each
	// validation of the path.
	pathVersions rowstore.Dimension = 0xb0
	// pathHolders maps the identity of a project and a path_id to the path that has the path_id.
	pathHolders rowstore.Dimension = 0xb1
	// projectPaths has one row per project; the row gains a version for each new path.
	projectPaths rowstore.Dimension = 0xb2
	// projectCollisions has one row per project; the row gains a version for each new path whose
	// path_id collides with an existing path's.
	projectCollisions rowstore.Dimension = 0xb3
	// projectBuilds has one row per project; the row gains a version for each new build.
	projectBuilds rowstore.Dimension = 0xb4
	// buildNumbers maps the identity of a project and a build to the build's number.
	buildNumbers rowstore.Dimension = 0xb5
	// builds maps a project and a build's number (8 bytes) to the build's counts.
	builds rowstore.Dimension = 0xb6
	// pathStates maps a path and the number (8 bytes) of a build to the state of the path after
	// each of its records in that build.
	pathStates rowstore.Dimension = 0xb7
	// projects has a single row, whose key is a zero byte; it gains a version for each new project.
	projects rowstore.Dimension = 0xb8
	// lines maps a project and a build's number (8 bytes) to the build's name, branch, and base.
	lines rowstore.Dimension = 0xb9
	// branches maps the identity of a project and a branch to the numbers of the branch's builds.
	branches rowstore.Dimension = 0xba
	// waiting has one row per path and number (8 bytes) of a base that lacks the path. The row gains a
	// version for each build that has the path and is based on that base.
	waiting rowstore.Dimension = 0xbb
	// waitingBefore links the builds in a row of waiting. It maps a path and the number (8 bytes) of a
	// build to the build that was added to that row just before.
	waitingBefore rowstore.Dimension = 0xbc
	// contents maps the identity of a project, a hash_version, and a content_fingerprint, followed
	// by the number (8 bytes) of a build, to the paths that have this content in the build.
	contents rowstore.Dimension = 0xbd
	// validations has one row per path and span (8 bytes); the row gains a version for each
	// validation of the span.
	validations rowstore.Dimension = 0xbe
	// contentValidations has up to two rows for each content of a path. Each row gains a version for
	// each validation of that content. One row is the identity of the path, the hash_version, and the
	// content_fingerprint. The other is the identity of the path and the digest of the content.
	contentValidations rowstore.Dimension = 0xbf
)

// Family returns the index family for paths, projects, and builds: its dimensions and its deriver.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	const numbered = identity + rowstore.SeqSize
	var categories []counters.Series
	for _, category := range Categories {
		categories = append(categories, counters.SeriesOf(counters.MetricPathChanges, string(category)))
	}
	return index.Family{
		RowBytes: map[rowstore.Dimension]int{
			pathVersions: identity, pathHolders: identity, projectPaths: identity, projectCollisions: identity, projectBuilds: identity,
			buildNumbers: identity, builds: numbered, pathStates: numbered, projects: 1, lines: numbered, branches: identity,
			waiting: numbered, waitingBefore: numbered, contents: numbered, validations: numbered, contentValidations: identity,
		},
		InitialSeries: categories,
		New:           func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}

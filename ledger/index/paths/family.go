// Package paths is the family of questions about path fingerprints, by project and build
// (spec: Path categories).
package paths

import (
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Dimensions of paths (spec: Path categories). In a key, a path is represented by the
// rowstore.Identity of its project and its joined route, and a project by that of its name.
// The builds of a project are numbered from 1; number 0 stands for the records without a build.
const (
	// pathVersions: a path; one version for each of its records and validations.
	pathVersions rowstore.Dimension = 0xb0
	// pathHolders: identity of a project and a path_id; the path that has the path_id.
	pathHolders rowstore.Dimension = 0xb1
	// projectPaths: a project; one version for each new path.
	projectPaths rowstore.Dimension = 0xb2
	// projectCollisions: a project; one version for each path_id that another path already
	// had.
	projectCollisions rowstore.Dimension = 0xb3
	// projectBuilds: a project; one version for each new build.
	projectBuilds rowstore.Dimension = 0xb4
	// buildNumbers: identity of a project and a build; the build's number.
	buildNumbers rowstore.Dimension = 0xb5
	// builds: a project and a build's number (8); the build's counts.
	builds rowstore.Dimension = 0xb6
	// pathStates: a path and the number (8) of a build; the path after each of its records in
	// that build.
	pathStates rowstore.Dimension = 0xb7
	// projects: a byte 0; one version for each new project.
	projects rowstore.Dimension = 0xb8
	// lines: a project and a build's number (8); the build's name, branch, and base.
	lines rowstore.Dimension = 0xb9
	// branches: identity of a project and a branch; the number of each of its builds.
	branches rowstore.Dimension = 0xba
	// waiting: a path and the number (8) of a base that lacks it; each build that has the path
	// and is based on that base.
	waiting rowstore.Dimension = 0xbb
	// waitingBefore: a path and the number (8) of a build in waiting; the previous build
	// there.
	waitingBefore rowstore.Dimension = 0xbc
	// contents: identity of a project, a hash_version, and a content_fingerprint, and the number (8)
	// of a build; the paths that have the content there.
	contents rowstore.Dimension = 0xbd
	// validations: a path and a span (8); each validation of the span.
	validations rowstore.Dimension = 0xbe
	// contentValidations: identity of a path, a hash_version, and a content_fingerprint, or of a path
	// and the digest of a content; each validation of that content.
	contentValidations rowstore.Dimension = 0xbf
)

// Family answers questions about paths, projects, and builds.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	const numbered = identity + rowstore.SeqBytes
	var categories []counters.Series
	for _, category := range Categories {
		categories = append(categories, counters.SeriesOf(counters.PathChangesTotal, string(category)))
	}
	return index.Family{
		Rows: map[rowstore.Dimension]int{
			pathVersions: identity, pathHolders: identity, projectPaths: identity, projectCollisions: identity, projectBuilds: identity,
			buildNumbers: identity, builds: numbered, pathStates: numbered, projects: 1, lines: numbered, branches: identity,
			waiting: numbered, waitingBefore: numbered, contents: numbered, validations: numbered, contentValidations: identity,
		},
		Counters: categories,
		New:      func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}

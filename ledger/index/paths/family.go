// Package paths is the family of path fingerprints, by project and build (spec: Path
// categories).
package paths

import (
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Dimensions of paths (spec: Path categories). A path is the identity of its project and its
// joined route; a project is the identity of its name.
const (
	// pathStates: a path; its state after one of its records or validations.
	pathStates rowstore.Dimension = 0xb0
	// pathHolders: identity of a project and a path_id; the path that holds it.
	pathHolders rowstore.Dimension = 0xb1
	// projectPaths: a project; one version for each new path.
	projectPaths rowstore.Dimension = 0xb2
	// projectCollisions: a project; one version for each path_id that was held.
	projectCollisions rowstore.Dimension = 0xb3
	// projectBuilds: a project; one version for each new build.
	projectBuilds rowstore.Dimension = 0xb4
	// buildNumbers: identity of a project and a build; the build's number.
	buildNumbers rowstore.Dimension = 0xb5
	// builds: a project and a build's number (8); the build's counts.
	builds rowstore.Dimension = 0xb6
	// buildPaths: a path and the number (8) of a build that has it.
	buildPaths rowstore.Dimension = 0xb7
	// projects: a byte 0; one version for each new project.
	projects rowstore.Dimension = 0xb8
)

// Family answers questions about paths, projects, and builds.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	var categories []counters.Series
	for _, category := range Categories {
		categories = append(categories, counters.SeriesOf(counters.PathChangesTotal, string(category)))
	}
	return index.Family{
		Rows: map[rowstore.Dimension]int{
			pathStates: identity, pathHolders: identity, projectPaths: identity, projectCollisions: identity, projectBuilds: identity,
			buildNumbers: identity, builds: identity + rowstore.SeqBytes, buildPaths: identity + rowstore.SeqBytes, projects: 1,
		},
		Counters: categories,
		New:      func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}

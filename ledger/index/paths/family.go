package paths

import (
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Dimensions of the paths of part 1.6. A path is identity of its project and its addsPath
// route; a project is identity of its name.
const (
	// pathStates: a path; what one of its records or validations made of it.
	pathStates rowstore.Dimension = 0xb0
	// pathHolders: identity of a project and a path_id; the path that holds it.
	pathHolders rowstore.Dimension = 0xb1
	// projectPaths: a project; a version for every new path of it.
	projectPaths rowstore.Dimension = 0xb2
	// projectCollisions: a project; a version for every path_id that was held.
	projectCollisions rowstore.Dimension = 0xb3
	// projectBuilds: a project; a version for every new build of it.
	projectBuilds rowstore.Dimension = 0xb4
	// buildNumbers: identity of a project and a build; the build's number.
	buildNumbers rowstore.Dimension = 0xb5
	// builds: a project and a build's number (8); what it counts.
	builds rowstore.Dimension = 0xb6
	// buildPaths: a path and a build's number (8), where the build has the path.
	buildPaths rowstore.Dimension = 0xb7
	// projects: a byte 0; a version for every new project.
	projects rowstore.Dimension = 0xb8
)

// Family is what follows for paths, their projects and builds.
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

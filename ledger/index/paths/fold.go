package paths

import (
	"colophon/ledger/index/rowstore"
)

// What the fold reads back of paths. A value that does not decode is an error of
// the rows, after which nothing is stored.

// pathState is the present state of a path; false if it has none.
func (f *deriver) pathState(path rowstore.Identity) (pathState, bool) {
	_, value, found := f.Rows.Newest(pathStates, path[:])
	if !found {
		return pathState{}, false
	}
	return rowstore.Decode(&f.Rows, value, decodePathState), true
}

// pathHolder is the path that holds a path_id, and its first record.
func (f *deriver) pathHolder(project, id []byte) (first uint64, path rowstore.Identity, held bool) {
	row := rowstore.Identify(project, id)
	first, value, held := f.Rows.Newest(pathHolders, row[:])
	copy(path[:], value)
	return first, path, held
}

func (f *deriver) projectState(project rowstore.Identity) projectState {
	_, value, found := f.Rows.Newest(projectPaths, project[:])
	if !found {
		return projectState{}
	}
	return rowstore.Decode(&f.Rows, value, decodeProjectState)
}

// buildState is the present state of a build, a new one if it has none.
func (f *deriver) buildState(project rowstore.Identity, number uint64) buildState {
	_, value, found := f.Rows.Newest(builds, buildRow(project, number))
	if !found {
		return buildState{}
	}
	return rowstore.Decode(&f.Rows, value, decodeBuildState)
}

// inBuild reports whether a build has a path.
func (f *deriver) inBuild(path rowstore.Identity, number uint64) bool {
	_, _, found := f.Rows.Newest(buildPaths, buildRow(path, number))
	return found
}

// number is a row that is one number; 0 if there is none.
func (f *deriver) number(d rowstore.Dimension, row rowstore.Identity) uint64 {
	_, value, found := f.Rows.Newest(d, row[:])
	if !found {
		return 0
	}
	return rowstore.Decode(&f.Rows, value, rowstore.DecodeNumber)
}

package index

import (
	"colophon/ledger/index/rowstore"
)

// What the fold reads back of paths. A value that does not decode is an error of
// the rows, after which nothing is stored.

// pathState is the present state of a path; false if it has none.
func (f *fold) pathState(path rowstore.Identity) (pathState, bool) {
	_, value, found := f.rows.Newest(pathStates, path[:])
	if !found {
		return pathState{}, false
	}
	return decodeRow(f, value, decodePathState), true
}

// pathHolder is the path that holds a path_id, and its first record.
func (f *fold) pathHolder(project, id []byte) (first uint64, path rowstore.Identity, held bool) {
	row := rowstore.Identify(project, id)
	first, value, held := f.rows.Newest(pathHolders, row[:])
	copy(path[:], value)
	return first, path, held
}

func (f *fold) pathsState(project rowstore.Identity) pathsState {
	_, value, found := f.rows.Newest(projectPaths, project[:])
	if !found {
		return pathsState{}
	}
	return decodeRow(f, value, decodePathsState)
}

// buildState is the present state of a build, a new one if it has none.
func (f *fold) buildState(project rowstore.Identity, number uint64) buildState {
	_, value, found := f.rows.Newest(builds, buildRow(project, number))
	if !found {
		return buildState{}
	}
	return decodeRow(f, value, decodeBuildState)
}

// inBuild reports whether a build has a path.
func (f *fold) inBuild(path rowstore.Identity, number uint64) bool {
	_, _, found := f.rows.Newest(buildPaths, buildRow(path, number))
	return found
}

// number is a row that is one number; 0 if there is none.
func (f *fold) number(d rowstore.Dimension, row rowstore.Identity) uint64 {
	_, value, found := f.rows.Newest(d, row[:])
	if !found {
		return 0
	}
	return decodeRow(f, value, rowstore.DecodeNumber)
}

func decodeRow[S any](f *fold, value []byte, decode func([]byte) (S, error)) S {
	s, err := decode(value)
	if err != nil {
		f.rows.Fail("%w", err)
	}
	return s
}

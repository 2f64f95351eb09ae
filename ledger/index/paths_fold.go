package index

// What the fold reads back of paths. A value that does not decode is an error of
// the rows, after which nothing is stored.

// pathState is the present state of a path; false if it has none.
func (f *fold) pathState(path identity) (pathState, bool) {
	_, value, found := f.rows.newest(pathStates, path[:])
	if !found {
		return pathState{}, false
	}
	return decodeRow(f, value, decodePathState), true
}

// pathHolder is the path that holds a path_id, and its first record.
func (f *fold) pathHolder(project, id []byte) (first uint64, path identity, held bool) {
	row := identify(project, id)
	first, value, held := f.rows.newest(pathHolders, row[:])
	copy(path[:], value)
	return first, path, held
}

func (f *fold) pathsState(project identity) pathsState {
	_, value, found := f.rows.newest(projectPaths, project[:])
	if !found {
		return pathsState{}
	}
	return decodeRow(f, value, decodePathsState)
}

// buildState is the present state of a build, a new one if it has none.
func (f *fold) buildState(project identity, number uint64) buildState {
	_, value, found := f.rows.newest(builds, buildRow(project, number))
	if !found {
		return buildState{}
	}
	return decodeRow(f, value, decodeBuildState)
}

// inBuild reports whether a build has a path.
func (f *fold) inBuild(path identity, number uint64) bool {
	_, _, found := f.rows.newest(buildPaths, buildRow(path, number))
	return found
}

// number is a row that is one number; 0 if there is none.
func (f *fold) number(d dimension, row identity) uint64 {
	_, value, found := f.rows.newest(d, row[:])
	if !found {
		return 0
	}
	return decodeRow(f, value, decodeNumber)
}

func decodeNumber(value []byte) (uint64, error) {
	var n uint64
	r := valueReader{rest: value}
	r.numbers(&n)
	return n, r.err("a number", value)
}

func decodeRow[S any](f *fold, value []byte, decode func([]byte) (S, error)) S {
	s, err := decode(value)
	if err != nil {
		f.rows.fail("%w", err)
	}
	return s
}

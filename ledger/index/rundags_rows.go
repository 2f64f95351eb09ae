package index

import (
	"colophon/ledger/event"
)

// latestRun is the latest live run-DAG of a question: the value of questionRuns.
type latestRun struct {
	seq uint64 // 0 if none is live
	// listed: the stages follow. They are left to the log where they would take too
	// much: a run-DAG may have thousands.
	listed bool
	stages []event.Stage // with identities for hashes
}

// listedBytes bounds what the stages of a latestRun take.
const listedBytes = 1 << 10

// latestRunOf is a run-DAG whose stages are digested.
func latestRunOf(seq uint64, stages []event.Stage) latestRun {
	size := 0
	for _, s := range stages {
		size += 1 + len(s.Name) + len(s.Hash)
	}
	if size > listedBytes {
		return latestRun{seq: seq}
	}
	return latestRun{seq, true, stages}
}

// digested is stages with identities for their hashes.
func digested(stages []event.Stage) []event.Stage {
	short := make([]event.Stage, len(stages))
	for i, s := range stages {
		id := identify(s.Hash)
		short[i] = event.Stage{Name: s.Name, Hash: id[:]}
	}
	return short
}

func (l *latestRun) append(dst []byte) []byte {
	listed := uint64(0)
	if l.listed {
		listed = 1
	}
	dst = appendNumbers(dst, l.seq, listed)
	for _, s := range l.stages {
		dst = append(appendTexts(dst, s.Name), s.Hash...)
	}
	return dst
}

// decodeLatestRun decodes what append wrote; its slices are the value's.
func decodeLatestRun(value []byte) (latestRun, error) {
	var l latestRun
	var listed uint64
	r := valueReader{rest: value}
	r.numbers(&l.seq, &listed)
	l.listed = listed > 0
	for len(r.rest) > 0 && !r.bad {
		var s event.Stage
		var id identity
		r.texts(&s.Name)
		s.Hash = r.rest
		r.identity(&id)
		s.Hash = s.Hash[:min(len(s.Hash), len(id))]
		l.stages = append(l.stages, s)
	}
	return l, r.err("a question's latest run", value)
}

func (f *fold) latestRun(question identity) latestRun {
	_, value, found := f.rows.newest(questionRuns, question[:])
	if !found {
		return latestRun{}
	}
	return decodeRow(f, value, decodeLatestRun)
}

func (f *fold) putLatestRun(seq uint64, question identity, l latestRun) {
	f.value = l.append(f.value[:0])
	f.rows.put(questionRuns, question[:], seq, f.value)
}

// cachedSet is the live run-DAGs of one cache key and one list of dimensions: the value
// of cachedRuns.
type cachedSet struct {
	live   uint64 // how many
	latest uint64 // seq of the latest; 0 if there is none
}

func (s *cachedSet) append(dst []byte) []byte { return appendNumbers(dst, s.live, s.latest) }

func decodeCachedSet(value []byte) (cachedSet, error) {
	var s cachedSet
	r := valueReader{rest: value}
	r.numbers(&s.live, &s.latest)
	return s, r.err("the runs of a cache key", value)
}

// cacheRow is a row of cachedRuns. Dimensions that are joined to one text may differ
// even where their cache keys are equal: a version may hold the separator.
type cacheRow [2 * len(identity{})]byte

// cacheRowOf is the row of a run-DAG; false if it only claims a cache key, or has none.
func cacheRowOf(dag *event.DAG) (row cacheRow, served bool) {
	if dag.CacheKey == nil || len(dag.Dimensions) == 0 {
		return row, false
	}
	parts := make([][]byte, 0, 2*len(dag.Dimensions))
	for _, d := range dag.Dimensions {
		if d.Hash != nil {
			parts = append(parts, d.Name, d.Hash)
		}
	}
	key, dimensions := identify([]byte(cacheKeyName), dag.CacheKey), identify(parts...)
	copy(row[copy(row[:], key[:]):], dimensions[:])
	return row, true
}

func (f *fold) cachedSet(row cacheRow) cachedSet {
	_, value, found := f.rows.newest(cachedRuns, row[:])
	if !found {
		return cachedSet{}
	}
	return decodeRow(f, value, decodeCachedSet)
}

func (f *fold) putCachedSet(seq uint64, row cacheRow, s cachedSet) {
	f.value = s.append(f.value[:0])
	f.rows.put(cachedRuns, row[:], seq, f.value)
}

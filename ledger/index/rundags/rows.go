package rundags

import (
	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
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
func shortHashes(stages []event.Stage) []event.Stage {
	short := make([]event.Stage, len(stages))
	for i, s := range stages {
		id := rowstore.Identify(s.Hash)
		short[i] = event.Stage{Name: s.Name, Hash: id[:]}
	}
	return short
}

func (l *latestRun) append(dst []byte) []byte {
	listed := uint64(0)
	if l.listed {
		listed = 1
	}
	dst = rowstore.AppendNumbers(dst, l.seq, listed)
	for _, s := range l.stages {
		dst = append(rowstore.AppendTexts(dst, s.Name), s.Hash...)
	}
	return dst
}

// decodeLatestRun decodes what append wrote; its slices are the value's.
func decodeLatestRun(value []byte) (latestRun, error) {
	var l latestRun
	var listed uint64
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&l.seq, &listed)
	l.listed = listed > 0
	for len(r.Rest) > 0 && !r.Bad {
		var s event.Stage
		var id rowstore.Identity
		r.Texts(&s.Name)
		s.Hash = r.Rest
		r.Identity(&id)
		s.Hash = s.Hash[:min(len(s.Hash), len(id))]
		l.stages = append(l.stages, s)
	}
	return l, r.Err("a question's latest run", value)
}

func (f *deriver) latestRun(question rowstore.Identity) latestRun {
	_, value, found := f.Rows.Newest(questionRuns, question[:])
	if !found {
		return latestRun{}
	}
	return rowstore.Decode(&f.Rows, value, decodeLatestRun)
}

func (f *deriver) putLatestRun(seq uint64, question rowstore.Identity, l latestRun) {
	f.value = l.append(f.value[:0])
	f.Rows.Put(questionRuns, question[:], seq, f.value)
}

// cachedSet is the live run-DAGs of one cache key and one list of dimensions: the value
// of cachedRuns.
type cachedSet struct {
	live   uint64 // how many
	latest uint64 // seq of the latest; 0 if there is none
}

func (s *cachedSet) append(dst []byte) []byte { return rowstore.AppendNumbers(dst, s.live, s.latest) }

func decodeCachedSet(value []byte) (cachedSet, error) {
	var s cachedSet
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&s.live, &s.latest)
	return s, r.Err("the runs of a cache key", value)
}

// cacheRow is a row of cachedRuns. Dimensions that are joined to one text may differ
// even where their cache keys are equal: a version may hold the separator.
type cacheRow [2 * len(rowstore.Identity{})]byte

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
	key, dimensions := rowstore.Identify([]byte(cacheKeyName), dag.CacheKey), rowstore.Identify(parts...)
	copy(row[copy(row[:], key[:]):], dimensions[:])
	return row, true
}

func (f *deriver) cachedSet(row cacheRow) cachedSet {
	_, value, found := f.Rows.Newest(cachedRuns, row[:])
	if !found {
		return cachedSet{}
	}
	return rowstore.Decode(&f.Rows, value, decodeCachedSet)
}

func (f *deriver) putCachedSet(seq uint64, row cacheRow, s cachedSet) {
	f.value = s.append(f.value[:0])
	f.Rows.Put(cachedRuns, row[:], seq, f.value)
}

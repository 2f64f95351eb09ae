package rundags

import (
	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// latestRun is the latest live run-DAG for a question. It is the value of a version in
// questionRuns.
type latestRun struct {
	seq uint64 // 0 if no run-DAG is live
	// listed is true if the value contains the stages. A run-DAG can have thousands of stages.
	// If they are too long for the value, they are read from the log.
	listed bool
	stages []event.NamedHash // stages with identities instead of hashes
}

// listedBytes is the maximum length of the stages in a latestRun, in bytes.
const listedBytes = 1 << 10

// latestRunOf returns the latestRun for a run-DAG. stages must come from shortHashes.
func latestRunOf(seq uint64, stages []event.NamedHash) latestRun {
	size := 0
	for _, s := range stages {
		size += 1 + len(s.Name) + len(s.Hash)
	}
	if size > listedBytes {
		return latestRun{seq: seq}
	}
	return latestRun{seq, true, stages}
}

// shortHashes returns a copy of stages in which each hash is replaced by its identity.
func shortHashes(stages []event.NamedHash) []event.NamedHash {
	short := make([]event.NamedHash, len(stages))
	for i, s := range stages {
		id := rowstore.IdentityOf(s.Hash)
		short[i] = event.NamedHash{Name: s.Name, Hash: id[:]}
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

// decodeLatestRun decodes a latestRun, which aliases value.
func decodeLatestRun(value []byte) (latestRun, error) {
	var l latestRun
	var listed uint64
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&l.seq, &listed)
	l.listed = listed > 0
	for len(r.Rest) > 0 && !r.Malformed {
		var s event.NamedHash
		var id rowstore.Identity
		r.ReadTexts(&s.Name)
		s.Hash = r.Rest
		r.ReadIdentity(&id)
		s.Hash = s.Hash[:min(len(s.Hash), len(id))]
		l.stages = append(l.stages, s)
	}
	return l, r.Finish("a question's latest run", value)
}

func (f *deriver) latestRun(question rowstore.Identity) latestRun {
	_, value, found := f.Rows.NewestVersion(questionRuns, question[:])
	if !found {
		return latestRun{}
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodeLatestRun)
}

func (f *deriver) putLatestRun(seq uint64, question rowstore.Identity, l latestRun) {
	f.value = l.append(f.value[:0])
	f.Rows.Put(questionRuns, question[:], seq, f.value)
}

// cachedSet counts the live run-DAGs that have the same cache key and the same dimensions. It is
// the value of a version in cachedRuns.
type cachedSet struct {
	live   uint64 // number of live run-DAGs
	latest uint64 // seq of the latest one; 0 if there is none
}

func (s *cachedSet) append(dst []byte) []byte { return rowstore.AppendNumbers(dst, s.live, s.latest) }

func decodeCachedSet(value []byte) (cachedSet, error) {
	var s cachedSet
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&s.live, &s.latest)
	return s, r.Finish("the runs of a cache key", value)
}

// cacheRow is the key of a row in cachedRuns. It includes the dimensions, because different
// dimensions can have the same cache key. This happens if a version contains the separator that
// CacheKey inserts between dimensions.
type cacheRow [2 * len(rowstore.Identity{})]byte

// cacheRowOf returns the row of a run-DAG. served is false if the run-DAG has no cache key or no
// dimensions. Without the dimensions, the cache key cannot be checked.
func cacheRowOf(dag *event.DAG) (row cacheRow, served bool) {
	if dag.CacheKey == nil || len(dag.CacheDimensions) == 0 {
		return row, false
	}
	parts := make([][]byte, 0, 2*len(dag.CacheDimensions))
	for _, d := range dag.CacheDimensions {
		if d.Hash != nil {
			parts = append(parts, d.Name, d.Hash)
		}
	}
	key, dimensions := rowstore.IdentityOf([]byte(cacheKeyName), dag.CacheKey), rowstore.IdentityOf(parts...)
	copy(row[copy(row[:], key[:]):], dimensions[:])
	return row, true
}

func (f *deriver) cachedSet(row cacheRow) cachedSet {
	_, value, found := f.Rows.NewestVersion(cachedRuns, row[:])
	if !found {
		return cachedSet{}
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodeCachedSet)
}

func (f *deriver) putCachedSet(seq uint64, row cacheRow, s cachedSet) {
	f.value = s.append(f.value[:0])
	f.Rows.Put(cachedRuns, row[:], seq, f.value)
}

package citations

import (
	"errors"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// The evidence for a run's output is the latest citation set with the same run_id (spec: Evidence).

// addToRun records a set as the latest one of its run. It does nothing if the set has no run_id.
func (f *deriver) addToRun(seq uint64, runID []byte, set *event.CitationSet) {
	if runID == nil {
		return
	}
	cited := make([]rowstore.Identity, len(set.Citations))
	for i := range set.Citations {
		cited[i] = rowstore.IdentityOf(set.Citations[i].SourceID, set.Citations[i].ChunkHash)
	}
	run, value := rowstore.IdentityOf(runID), rowstore.IdentityOf(sortedChunks(cited))
	f.Rows.Put(runSets, run[:], seq, value[:])
	f.runSets = new(true)
}

// NewestEvidence returns the identity of the citations in the latest citation set of a run. found
// is false if the run has no set.
func (f *deriver) NewestEvidence(runID []byte) (cited rowstore.Identity, found bool) {
	if runID == nil || !f.anyRunSets() {
		return cited, false
	}
	run := rowstore.IdentityOf(runID)
	_, value, found := f.Rows.NewestVersion(runSets, run[:])
	if found {
		cited = rowstore.DecodeOrFail(&f.Rows, value, decodeIdentity)
	}
	return cited, found
}

// anyRunSets reports whether any citation set has a run_id. If none has, the fold does not need to
// look up the sets of runs.
func (f *deriver) anyRunSets() bool {
	if f.runSets != nil {
		return *f.runSets
	}
	prefix := f.Rows.Keyspace.AppendPrefix(nil, runSets)
	it, err := f.Rows.NewIterator(prefix, f.Rows.Keyspace.AppendPrefix(nil, runSets+1))
	if err != nil {
		f.Rows.Failf("%w", err)
		return false
	}
	f.KeysRead++
	f.runSets = new(it.First())
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		f.Rows.Failf("%w", err)
	}
	return *f.runSets
}

func decodeIdentity(value []byte) (id rowstore.Identity, err error) {
	r := rowstore.ValueReader{Rest: value}
	r.ReadIdentity(&id)
	return id, r.Finish("an identity", value)
}

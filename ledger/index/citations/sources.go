package citations

import (
	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// sourceChanged folds the registration or revocation of a source. A registration with a list of
// chunks supersedes the source's cited chunks that are not in the list.
func (f *deriver) sourceChanged(e *event.Event) error {
	change := e.Source()
	if change.ID == nil {
		return nil
	}
	if change.HasChunkList {
		// supersedeUnlisted reads the stored chunks of the source, so all earlier events must
		// be stored.
		if err := f.RequireEmptyBatch(); err != nil {
			return err
		}
	}
	source := rowstore.IdentityOf(change.ID)
	_, _, known := f.Rows.NewestVersion(sourceStates, source[:])
	var state sourceState
	switch {
	case e.Kind == record.KindSourceRegistered:
		state.registered = 1
		if change.HasChunkList {
			state.listed, state.chunks = 1, uint64(len(change.ChunkHashes))
			state.list = listIdentity(change.ChunkHashes)
		}
		if !known {
			f.Rows.Put(sourceList, listRow, e.Seq, change.ID)
		}
	case !known:
		return nil // the source was never registered, so there is nothing to revoke
	}
	f.value = state.append(f.value[:0])
	f.Rows.Put(sourceStates, source[:], e.Seq, f.value)
	if !change.HasChunkList {
		return nil
	}
	listed := make(map[rowstore.Identity]bool, len(change.ChunkHashes))
	for _, hash := range change.ChunkHashes {
		chunk := rowstore.IdentityOf(hash)
		listed[chunk] = true
		p := pairOf(source, chunk)
		f.Rows.PutFirst(listedChunks, p[:], e.Seq, nil)
	}
	return f.supersedeUnlisted(e.Seq, source, listed)
}

// listIdentity returns the identity of a list of chunks. It does not depend on the order of the
// list.
func listIdentity(hashes [][]byte) rowstore.Identity {
	chunks := make([]rowstore.Identity, len(hashes))
	for i, hash := range hashes {
		chunks[i] = rowstore.IdentityOf(hash)
	}
	return rowstore.IdentityOf(sortedChunks(chunks))
}

// sourceState returns the current state of a source and the seq of the event that caused it. found
// is false if the source was never registered.
func (f *deriver) sourceState(source rowstore.Identity) (s sourceState, seq uint64, found bool) {
	seq, value, found := f.Rows.NewestVersion(sourceStates, source[:])
	if found {
		s = rowstore.DecodeOrFail(&f.Rows, value, decodeSourceState)
	}
	return s, seq, found
}

// unlisted reports whether the current registration of a source has a list of chunks that does not
// include the given chunk.
func (f *deriver) unlisted(source, chunk rowstore.Identity) bool {
	state, registration, found := f.sourceState(source)
	if !found || state.listed == 0 {
		return false
	}
	p := pairOf(source, chunk)
	seq, _, found := f.Rows.NewestVersion(listedChunks, p[:])
	return !found || seq != registration
}

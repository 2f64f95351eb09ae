package citations

import (
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Dimensions of citations. A source is identity of its id, a chunk identity of its
// chunk_hash.
const (
	// conflictList: the seq (8, inverted) of the set that added a chunk its second
	// source, and a number (4) that tells chunks of one set apart.
	conflictList rowstore.Dimension = 0x30
	// supersessions: a source, the seq (8, inverted) of the event that superseded
	// chunks of it, and a number (4) that tells these apart.
	supersessions rowstore.Dimension = 0x31
	// freshChunks: a source and a chunk that sets cite which are not stale.
	freshChunks rowstore.Dimension = 0x32

	// sourceStates: a source; its last registration or revocation.
	sourceStates rowstore.Dimension = 0xa0
	// sourceList: a byte 0; a version for every new source that is registered.
	sourceList rowstore.Dimension = 0xa1
	// listedChunks: a source and a chunk; a version for every registration that lists
	// the chunk.
	listedChunks rowstore.Dimension = 0xa2
	// citedChunks: a source and a chunk; whether sets that cite them are fresh.
	citedChunks rowstore.Dimension = 0xa3
	// places: identity of a place; the chunks that are cited there.
	places rowstore.Dimension = 0xa4
	// chunkSources: a chunk; a version for every set that cites it under new sources.
	chunkSources rowstore.Dimension = 0xa5
)

// Family is what sets cite, which sources are registered, and what became stale.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	return index.Family{
		Rows: map[rowstore.Dimension]int{
			sourceStates: identity, sourceList: 1, listedChunks: 2 * identity, citedChunks: 2 * identity, places: identity, chunkSources: identity,
		},
		New: func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}

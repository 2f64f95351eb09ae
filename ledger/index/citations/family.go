// Package citations answers questions about citation sets, their sources, and stale citations.
package citations

import (
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Dimensions of citations. In a key, a source is represented by the rowstore.Identity of its id,
// and a chunk by the rowstore.Identity of its chunk_hash.
const (
	// conflictList lists the chunks that are cited under more than one source. A key consists of
	// the seq (8 bytes, inverted) of the set that added the second source, and a number (4 bytes)
	// that distinguishes the chunks of that set.
	conflictList rowstore.Dimension = 0x30
	// supersessions lists the superseded chunks. A key consists of a source, the seq (8 bytes,
	// inverted) of the event that superseded chunks of the source, and a number (4 bytes) that
	// distinguishes these chunks.
	supersessions rowstore.Dimension = 0x31
	// freshChunks lists the chunks that fresh sets cite. A key consists of a source and a chunk.
	freshChunks rowstore.Dimension = 0x32

	// sourceStates maps a source to its last registration or revocation.
	sourceStates rowstore.Dimension = 0xa0
	// sourceList lists all sources in a single row, whose key is the byte 0. When a source is
	// registered for the first time, the row gains a version.
	sourceList rowstore.Dimension = 0xa1
	// listedChunks records which registrations list a chunk. The key of a row is a source and a
	// chunk. The row has one version for each registration that lists the chunk.
	listedChunks rowstore.Dimension = 0xa2
	// citedChunks maps a source and a chunk to a citedState, which says whether the sets that cite
	// the chunk are fresh.
	citedChunks rowstore.Dimension = 0xa3
	// places maps the identity of a place (see placeOf) to the chunks that are cited there. A later
	// set that cites the same place replaces these chunks.
	places rowstore.Dimension = 0xa4
	// chunkSources records the sources under which a chunk is cited. The key of a row is a chunk.
	// Each set that cites the chunk under a new source adds a version.
	chunkSources rowstore.Dimension = 0xa5
	// runSets maps the identity of a run_id to the identity of the citations in a set with that
	// run_id. There is one version for each set.
	runSets rowstore.Dimension = 0xa6
)

// Family returns the rows and the deriver that answer questions about citation sets, sources,
// and stale citations.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	return index.Family{
		RowBytes: map[rowstore.Dimension]int{
			sourceStates: identity, sourceList: 1, listedChunks: 2 * identity, citedChunks: 2 * identity, places: identity, chunkSources: identity,
			runSets: identity,
		},
		New: func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}

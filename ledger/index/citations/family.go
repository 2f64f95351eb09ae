// Package citations is the family of questions about citation sets, their sources, and stale
// citations.
package citations

import (
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Dimensions of citations. In a key, a source is represented by the rowstore.Identity of its
// id, and a chunk by that of its chunk_hash.
const (
	// conflictList: the seq (8, inverted) of the set that added a second source to a chunk,
	// and a number (4) that distinguishes chunks of one set.
	conflictList rowstore.Dimension = 0x30
	// supersessions: a source, the seq (8, inverted) of the event that superseded some of its
	// chunks, and a number (4) that distinguishes the chunks.
	supersessions rowstore.Dimension = 0x31
	// freshChunks: a source and a chunk of it that fresh sets cite.
	freshChunks rowstore.Dimension = 0x32

	// sourceStates: a source; its last registration or revocation.
	sourceStates rowstore.Dimension = 0xa0
	// sourceList: a byte 0; one version for each new source that is registered.
	sourceList rowstore.Dimension = 0xa1
	// listedChunks: a source and a chunk; one version for each registration that lists the
	// chunk.
	listedChunks rowstore.Dimension = 0xa2
	// citedChunks: a source and a chunk; whether sets that cite the chunk from the source are
	// fresh.
	citedChunks rowstore.Dimension = 0xa3
	// places: identity of a place; the chunks that the latest set cites there.
	places rowstore.Dimension = 0xa4
	// chunkSources: a chunk; one version for each set that cites it under new sources.
	chunkSources rowstore.Dimension = 0xa5
	// runSets: identity of a run_id; one version for each set of the run: the identity of what
	// the set cites.
	runSets rowstore.Dimension = 0xa6
)

// Family answers questions about citation sets, sources, and stale citations.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	return index.Family{
		Rows: map[rowstore.Dimension]int{
			sourceStates: identity, sourceList: 1, listedChunks: 2 * identity, citedChunks: 2 * identity, places: identity, chunkSources: identity,
			runSets: identity,
		},
		New: func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}

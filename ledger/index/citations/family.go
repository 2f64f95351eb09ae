// Package citations answers questions about citation sets, their sources, and stale citations.
package citations

import (
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Dimensions of citations. In a key, a source is represented by the rowstore.Identity of its id,
// and a chunk by the rowstore.Identity of its chunk_hash.
const (
	// A key in conflictList consists of the seq (8 bytes, inverted) of the set that added a second
	// source to a chunk, and a number (4 bytes) that distinguishes the chunks of that set.
	conflictList rowstore.Dimension = 0x30
	// A key in supersessions consists of a source, the seq (8 bytes, inverted) of the event that
	// superseded some of its chunks, and a number (4 bytes) that distinguishes the chunks.
	supersessions rowstore.Dimension = 0x31
	// A key in freshChunks consists of a source and one of its chunks that a fresh set cites.
	freshChunks rowstore.Dimension = 0x32

	// sourceStates maps a source to its last registration or revocation.
	sourceStates rowstore.Dimension = 0xa0
	// sourceList has a single row, whose key is the byte 0. It has one version for each source,
	// written when the source is first registered.
	sourceList rowstore.Dimension = 0xa1
	// The key of a row in listedChunks is a source and a chunk. The row has one version for each
	// registration that lists the chunk.
	listedChunks rowstore.Dimension = 0xa2
	// citedChunks maps a source and a chunk to whether the sets that cite that chunk from that
	// source are fresh.
	citedChunks rowstore.Dimension = 0xa3
	// places maps the identity of a place to the chunks cited there by the latest set that cites
	// the place.
	places rowstore.Dimension = 0xa4
	// The key of a row in chunkSources is a chunk. The row has one version for each set that cites
	// the chunk under a new source.
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
		Rows: map[rowstore.Dimension]int{
			sourceStates: identity, sourceList: 1, listedChunks: 2 * identity, citedChunks: 2 * identity, places: identity, chunkSources: identity,
			runSets: identity,
		},
		New: func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}

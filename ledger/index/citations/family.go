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
	// A key of conflictList consists of the seq (8 bytes, inverted) of the set that added a
	// second source to a chunk, and a number (4 bytes) that distinguishes the chunks of one
	// set.
	conflictList rowstore.Dimension = 0x30
	// A key of supersessions consists of a source, the seq (8 bytes, inverted) of the event
	// that superseded some of its chunks, and a number (4 bytes) that distinguishes the chunks.
	supersessions rowstore.Dimension = 0x31
	// A key of freshChunks consists of a source and a chunk of it that fresh sets cite.
	freshChunks rowstore.Dimension = 0x32

	// sourceStates maps a source to its last registration or revocation.
	sourceStates rowstore.Dimension = 0xa0
	// sourceList has one row, a byte 0, with one version for each new source that is
	// registered.
	sourceList rowstore.Dimension = 0xa1
	// A row of listedChunks has a source and a chunk, and one version for each registration
	// that lists the chunk.
	listedChunks rowstore.Dimension = 0xa2
	// citedChunks maps a source and a chunk to whether sets that cite the chunk from the
	// source are fresh.
	citedChunks rowstore.Dimension = 0xa3
	// places maps the identity of a place to the chunks that the latest set cites there.
	places rowstore.Dimension = 0xa4
	// A row of chunkSources has a chunk, and one version for each set that cites it under new
	// sources.
	chunkSources rowstore.Dimension = 0xa5
	// runSets maps the identity of a run_id to the identity of what a set of the run cites,
	// with one version for each set.
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

package index

import (
	"colophon/ledger/index/rowstore"
)

const (
	// cursorDimension has one key, whose value is a cursor.
	cursorDimension rowstore.Dimension = 0x01
	// counterDimension leads from the name of a counter to its value.
	counterDimension rowstore.Dimension = 0x02
	// hashDimension: the first hashBytes of an event_hash, and the seq (8).
	hashDimension rowstore.Dimension = 0x03

	// rankings: a family, the number of a ranking, a score (8) and the seq (8, inverted)
	// of the first run of a group.
	rankings rowstore.Dimension = 0x11
	// goneRuns: a group and the seq (8) of the first of consecutive runs that are not
	// live; the seq of the last.
	goneRuns rowstore.Dimension = 0x12

	// recordedMarks: the time of an event and its seq (8), for one event in many.
	recordedMarks rowstore.Dimension = 0x20
	// recordedTimes: the number of a block of events (8); when each was recorded.
	recordedTimes rowstore.Dimension = 0x22
	// occurrences: the number of a kind or 0, the time that a record occurred at and
	// its seq, both inverted.
	occurrences rowstore.Dimension = 0x21

	// liveOfQuestion: identity of a question_hash and the seq (8, inverted) of a
	// run-DAG that is live. liveOfCacheKey: the same of a row of cachedRuns.
	liveOfQuestion rowstore.Dimension = 0x28
	liveOfCacheKey rowstore.Dimension = 0x29

	// conflictList: the seq (8, inverted) of the set that brought a chunk its second
	// source, and a number (4) that tells chunks of one set apart.
	conflictList rowstore.Dimension = 0x30
	// supersessions: a source, the seq (8, inverted) of the event that superseded
	// chunks of it, and a number (4) that tells these apart.
	supersessions rowstore.Dimension = 0x31
	// freshChunks: a source and a chunk that sets cite which are not stale.
	freshChunks rowstore.Dimension = 0x32
)

// The dimensions whose rows have versions.
const (
	// postings: identity of a name and a value; one version for every event that
	// has that value.
	postings rowstore.Dimension = rowstore.VersionedBit | iota

	// A family is identity of a name that runs are grouped by.

	// families: a family; a version for every group, by its first run: the group.
	families rowstore.Dimension = 0x81
	// outputs: a group and an output, by the first run of the ledger that had it (8);
	// how many runs have it.
	outputs rowstore.Dimension = 0x82
	// outputLevels: a group and a number of live runs (8); how many outputs of the group
	// have so many.
	outputLevels rowstore.Dimension = 0x84
	// conditions: identity of a variable and its value; a version for every ipc_id
	// with that value, by the first run that shows it.
	conditions rowstore.Dimension = 0x83

	// recordStates: a record's seq (8); its state, by the change that led to it.
	recordStates rowstore.Dimension = 0x90
	// occurredUntil: a byte 0; a time that no record so far has occurred at or
	// after.
	occurredUntil rowstore.Dimension = 0x91

	// A producer is identity of its id.

	// producerStates: a producer; what it has delivered so far.
	producerStates rowstore.Dimension = 0x98
	// producerNumbers: a producer, a level (1) and an index (8); which of a block of
	// its numbers, or of lower blocks, are delivered.
	producerNumbers rowstore.Dimension = 0x99
	// producerRepeats: a producer; a version for every record that repeats a number.
	producerRepeats rowstore.Dimension = 0x9a
	// producerList: a byte 0; a version for every new producer.
	producerList rowstore.Dimension = 0x9b
	// producersMissing: a byte 0; the numbers that are missing of all producers.
	producersMissing rowstore.Dimension = 0x9c

	// A source is identity of its id, a chunk identity of its chunk_hash.

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

	// questionRuns: identity of a question_hash; its latest live run-DAG.
	questionRuns rowstore.Dimension = 0xa8
	// cachedRuns: identities of a cache_key and of dimensions; the live run-DAGs.
	cachedRuns rowstore.Dimension = 0xa9
	// failureCounts: numbers of a failure_stage, an audit_mode and a shape (1 each);
	// how many run-DAGs there were.
	failureCounts rowstore.Dimension = 0xaa
	// withdrawnRuns: the seq (8) of a run-DAG that is not live, or was not.
	withdrawnRuns rowstore.Dimension = 0xab

	// The paths of part 1.6. A path is identity of its project and its joined
	// route; a project is identity of its name.

	// pathStates: a path; what one of its records or validations made of it.
	pathStates rowstore.Dimension = 0xb0
	// pathHolders: identity of a project and a path_id; the path that holds it.
	pathHolders rowstore.Dimension = 0xb1
	// projectPaths: a project; a version for every new path of it.
	projectPaths rowstore.Dimension = 0xb2
	// projectCollisions: a project; a version for every path_id that was held.
	projectCollisions rowstore.Dimension = 0xb3
	// projectBuilds: a project; a version for every new build of it.
	projectBuilds rowstore.Dimension = 0xb4
	// buildNumbers: identity of a project and a build; the build's number.
	buildNumbers rowstore.Dimension = 0xb5
	// builds: a project and a build's number (8); what it counts.
	builds rowstore.Dimension = 0xb6
	// buildPaths: a path and a build's number (8), where the build has the path.
	buildPaths rowstore.Dimension = 0xb7
	// projects: a byte 0; a version for every new project.
	projects rowstore.Dimension = 0xb8
)

// rowBytes is the schema of an index.
var rowBytes = rowstore.Schema{
	postings: len(rowstore.Identity{}),
	families: len(rowstore.Identity{}),

	outputs:      len(outputRow{}),
	outputLevels: len(levelRow{}),
	conditions:   len(rowstore.Identity{}),

	recordStates:  rowstore.SeqBytes,
	occurredUntil: 1,

	producerStates:   len(rowstore.Identity{}),
	producerNumbers:  len(rowstore.Identity{}) + 1 + rowstore.SeqBytes,
	producerRepeats:  len(rowstore.Identity{}),
	producerList:     1,
	producersMissing: 1,

	sourceStates: len(rowstore.Identity{}),
	sourceList:   1,
	listedChunks: 2 * len(rowstore.Identity{}),
	citedChunks:  2 * len(rowstore.Identity{}),
	places:       len(rowstore.Identity{}),
	chunkSources: len(rowstore.Identity{}),

	questionRuns:  len(rowstore.Identity{}),
	cachedRuns:    2 * len(rowstore.Identity{}),
	failureCounts: 3,
	withdrawnRuns: rowstore.SeqBytes,

	pathStates:        len(rowstore.Identity{}),
	pathHolders:       len(rowstore.Identity{}),
	projectPaths:      len(rowstore.Identity{}),
	projectCollisions: len(rowstore.Identity{}),
	projectBuilds:     len(rowstore.Identity{}),
	buildNumbers:      len(rowstore.Identity{}),
	builds:            len(rowstore.Identity{}) + rowstore.SeqBytes,
	buildPaths:        len(rowstore.Identity{}) + rowstore.SeqBytes,
	projects:          1,
}

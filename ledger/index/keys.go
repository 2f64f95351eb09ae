package index

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
)

// A key is the ledger's number (2 bytes), a dimension (1), and what the dimension
// is ordered by. Dimensions of versionedBit end in a version: the seq of an event
// that wrote the row, inverted, so that the newest comes first. Each key has a stretch
// of versions and ends in the oldest of them. What stands between has one length in each
// dimension: docs/index.md lists them all.
type dimension byte

// versionedBit marks the dimensions whose keys end in a version.
const versionedBit = 0x80

const (
	// numberDimension, in keyspace 0 only, leads from a ledger's name to its
	// number (2 bytes).
	numberDimension dimension = 0x00
	// cursorDimension has one key, whose value is a cursor.
	cursorDimension dimension = 0x01
	// counterDimension leads from the name of a counter to its value.
	counterDimension dimension = 0x02
	// hashDimension: the first hashBytes of an event_hash, and the seq (8).
	hashDimension dimension = 0x03

	// rankings: a family, the number of a ranking, a score (8) and the seq (8, inverted)
	// of the first run of a group.
	rankings dimension = 0x11
	// goneRuns: a group and the seq (8) of the first of consecutive runs that are not
	// live; the seq of the last.
	goneRuns dimension = 0x12

	// recordedMarks: the time of an event and its seq (8), for one event in many.
	recordedMarks dimension = 0x20
	// recordedTimes: the number of a block of events (8); when each was recorded.
	recordedTimes dimension = 0x22
	// occurrences: the number of a kind or 0, the time that a record occurred at and
	// its seq, both inverted.
	occurrences dimension = 0x21

	// liveOfQuestion: identity of a question_hash and the seq (8, inverted) of a
	// run-DAG that is live. liveOfCacheKey: the same of a row of cachedRuns.
	liveOfQuestion dimension = 0x28
	liveOfCacheKey dimension = 0x29

	// conflictList: the seq (8, inverted) of the set that brought a chunk its second
	// source, and a number (4) that tells chunks of one set apart.
	conflictList dimension = 0x30
	// supersessions: a source, the seq (8, inverted) of the event that superseded
	// chunks of it, and a number (4) that tells these apart.
	supersessions dimension = 0x31
	// freshChunks: a source and a chunk that sets cite which are not stale.
	freshChunks dimension = 0x32
)

// The dimensions whose rows have versions.
const (
	// postings: identity of a name and a value; one version for every event that
	// has that value.
	postings dimension = versionedBit | iota

	// A family is identity of a name that runs are grouped by.

	// families: a family; a version for every group, by its first run: the group.
	families dimension = 0x81
	// outputs: a group and an output, by the first run of the ledger that had it (8);
	// how many runs have it.
	outputs dimension = 0x82
	// outputLevels: a group and a number of live runs (8); how many outputs of the group
	// have so many.
	outputLevels dimension = 0x84
	// conditions: identity of a variable and its value; a version for every ipc_id
	// with that value, by the first run that shows it.
	conditions dimension = 0x83

	// recordStates: a record's seq (8); its state, by the change that led to it.
	recordStates dimension = 0x90
	// occurredUntil: a byte 0; a time that no record so far has occurred at or
	// after.
	occurredUntil dimension = 0x91

	// A producer is identity of its id.

	// producerStates: a producer; what it has delivered so far.
	producerStates dimension = 0x98
	// producerNumbers: a producer, a level (1) and an index (8); which of a block of
	// its numbers, or of lower blocks, are delivered.
	producerNumbers dimension = 0x99
	// producerRepeats: a producer; a version for every record that repeats a number.
	producerRepeats dimension = 0x9a
	// producerList: a byte 0; a version for every new producer.
	producerList dimension = 0x9b
	// producersMissing: a byte 0; the numbers that are missing of all producers.
	producersMissing dimension = 0x9c

	// A source is identity of its id, a chunk identity of its chunk_hash.

	// sourceStates: a source; its last registration or revocation.
	sourceStates dimension = 0xa0
	// sourceList: a byte 0; a version for every new source that is registered.
	sourceList dimension = 0xa1
	// listedChunks: a source and a chunk; a version for every registration that lists
	// the chunk.
	listedChunks dimension = 0xa2
	// citedChunks: a source and a chunk; whether sets that cite them are fresh.
	citedChunks dimension = 0xa3
	// places: identity of a place; the chunks that are cited there.
	places dimension = 0xa4
	// chunkSources: a chunk; a version for every set that cites it under new sources.
	chunkSources dimension = 0xa5

	// questionRuns: identity of a question_hash; its latest live run-DAG.
	questionRuns dimension = 0xa8
	// cachedRuns: identities of a cache_key and of dimensions; the live run-DAGs.
	cachedRuns dimension = 0xa9
	// failureCounts: numbers of a failure_stage, an audit_mode and a shape (1 each);
	// how many run-DAGs there were.
	failureCounts dimension = 0xaa
	// withdrawnRuns: the seq (8) of a run-DAG that is not live, or was not.
	withdrawnRuns dimension = 0xab

	// The paths of part 1.6. A path is identity of its project and its joined
	// route; a project is identity of its name.

	// pathStates: a path; what one of its records or validations made of it.
	pathStates dimension = 0xb0
	// pathHolders: identity of a project and a path_id; the path that holds it.
	pathHolders dimension = 0xb1
	// projectPaths: a project; a version for every new path of it.
	projectPaths dimension = 0xb2
	// projectCollisions: a project; a version for every path_id that was held.
	projectCollisions dimension = 0xb3
	// projectBuilds: a project; a version for every new build of it.
	projectBuilds dimension = 0xb4
	// buildNumbers: identity of a project and a build; the build's number.
	buildNumbers dimension = 0xb5
	// builds: a project and a build's number (8); what it counts.
	builds dimension = 0xb6
	// buildPaths: a path and a build's number (8), where the build has the path.
	buildPaths dimension = 0xb7
	// projects: a byte 0; a version for every new project.
	projects dimension = 0xb8
)

// rowBytes is, by dimension, the length of what stands before a version.
var rowBytes = [256]int{
	postings: len(identity{}),
	families: len(identity{}),

	outputs:      len(outputRow{}),
	outputLevels: len(levelRow{}),
	conditions:   len(identity{}),

	recordStates:  seqBytes,
	occurredUntil: 1,

	producerStates:   len(identity{}),
	producerNumbers:  len(identity{}) + 1 + seqBytes,
	producerRepeats:  len(identity{}),
	producerList:     1,
	producersMissing: 1,

	sourceStates: len(identity{}),
	sourceList:   1,
	listedChunks: 2 * len(identity{}),
	citedChunks:  2 * len(identity{}),
	places:       len(identity{}),
	chunkSources: len(identity{}),

	questionRuns:  len(identity{}),
	cachedRuns:    2 * len(identity{}),
	failureCounts: 3,
	withdrawnRuns: seqBytes,

	pathStates:        len(identity{}),
	pathHolders:       len(identity{}),
	projectPaths:      len(identity{}),
	projectCollisions: len(identity{}),
	projectBuilds:     len(identity{}),
	buildNumbers:      len(identity{}),
	builds:            len(identity{}) + seqBytes,
	buildPaths:        len(identity{}) + seqBytes,
	projects:          1,
}

// versionBytes is the length of a version, seqBytes that of a seq.
const (
	versionBytes = 8
	seqBytes     = 8
)

// keyspace is the part of the index that belongs to one ledger: the bytes that
// all its keys begin with. Number 0 is the index's own.
type keyspace [2]byte

func numbered(n uint16) keyspace {
	var k keyspace
	binary.BigEndian.PutUint16(k[:], n)
	return k
}

// end is beyond all keys of the keyspace. The last number has none.
func (k keyspace) end() []byte {
	next := numbered(binary.BigEndian.Uint16(k[:]) + 1)
	return next[:]
}

// key appends the beginning that all keys of a dimension share.
func (k keyspace) key(dst []byte, d dimension) []byte {
	return append(append(dst, k[:]...), byte(d))
}

// hashBytes of an event_hash tell nearly all events apart.
const hashBytes = 6

// eventHash is what the keys of the events with the beginning of a hash begin with.
func (k keyspace) eventHash(dst []byte, hash storage.Hash) []byte {
	return append(k.key(dst, hashDimension), hash[:hashBytes]...)
}

// appendVersion appends a seq so that later ones come first.
func appendVersion(dst []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.MaxUint64-seq)
}

// versionOf is the seq that a key ends in.
func versionOf(key []byte) uint64 {
	return math.MaxUint64 - binary.BigEndian.Uint64(key[len(key)-versionBytes:])
}

func appendSeq(dst []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(dst, seq) }

func decodeSeq(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("a sequence number of %d bytes", len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// identity stands for texts of any length in keys: half a SHA-256, which nobody
// finds a second text for.
type identity [16]byte

// identify is the identity of some texts, in that order.
func identify(parts ...[]byte) identity {
	var scratch [256]byte
	b := scratch[:0]
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return identity(sum[:len(identity{})])
}

// split is the length of a key without its version.
func split(key []byte) int {
	const head = len(keyspace{}) + 1
	if len(key) > head+versionBytes && len(key) == head+rowBytes[key[head-1]]+versionBytes {
		return len(key) - versionBytes
	}
	return len(key)
}

// comparer orders keys by their bytes, and tells the engine where the version
// begins, so that its filters answer whether a row has any version at all.
func comparer() *engine.Comparer {
	c := *engine.DefaultComparer
	c.Name = "colophon.index.1"
	c.Split = split
	// Keys between others keep their form, for split.
	c.Separator = func(dst, a, _ []byte) []byte { return append(dst, a...) }
	c.Successor = func(dst, a []byte) []byte { return append(dst, a...) }
	return &c
}

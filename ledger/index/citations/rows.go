package citations

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"colophon/ledger/index/rowstore"
)

// sourceState is what a registration or a revocation made of a source: the value of
// sourceStates, whose version is the event.
type sourceState struct {
	registered uint64 // 1 if it is
	listed     uint64 // 1 if its registration lists the source's chunks
	chunks     uint64 // how many it lists
}

func (s *sourceState) append(dst []byte) []byte {
	return rowstore.AppendNumbers(dst, s.registered, s.listed, s.chunks)
}

func decodeSourceState(value []byte) (sourceState, error) {
	var s sourceState
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&s.registered, &s.listed, &s.chunks)
	return s, r.Err("a source", value)
}

// pair is a source and a chunk of it, as rows have them.
type pair [2 * len(rowstore.Identity{})]byte

func pairOf(source, chunk rowstore.Identity) pair {
	var p pair
	copy(p[copy(p[:], source[:]):], chunk[:])
	return p
}

// citedState says whether the sets that cite a chunk of a source are fresh: the value
// of citedChunks.
type citedState struct {
	fresh uint64 // 1 if a set has cited it since it was superseded last
	from  uint64 // sets from this event on are not superseded; 0 if it never was
	chunk []byte // chunk_hash
}

func (s *citedState) append(dst []byte) []byte {
	return rowstore.AppendTexts(rowstore.AppendNumbers(dst, s.fresh, s.from), s.chunk)
}

func decodeCitedState(value []byte) (citedState, error) {
	var s citedState
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&s.fresh, &s.from)
	r.Texts(&s.chunk)
	return s, r.Err("a chunk of a source", value)
}

// supersession is one chunk of a source that was superseded: a value of
// supersessions. The sets of the events from..to-1 that cite it became stale.
type supersession struct {
	how, from, to uint64
	chunk         []byte
}

func (s *supersession) append(dst []byte) []byte {
	return rowstore.AppendTexts(rowstore.AppendNumbers(dst, s.how, s.from, s.to), s.chunk)
}

func decodeSupersession(value []byte) (supersession, error) {
	var s supersession
	r := rowstore.ValueReader{Rest: value}
	r.Numbers(&s.how, &s.from, &s.to)
	r.Texts(&s.chunk)
	if s.how >= uint64(len(supersededHow)) {
		r.Bad = true
	}
	return s, r.Err("a superseded chunk", value)
}

// supersededKey is the key of the n-th chunk that an event supersedes of a source.
func supersededKey(k rowstore.Keyspace, dst []byte, source rowstore.Identity, seq uint64, n uint32) []byte {
	dst = append(k.Key(dst, supersessions), source[:]...)
	return binary.BigEndian.AppendUint32(rowstore.AppendVersion(dst, seq), n)
}

// freshChunkKey is the key of a chunk of a source that is cited by sets that are fresh.
func freshChunkKey(k rowstore.Keyspace, dst []byte, p pair) []byte {
	return append(k.Key(dst, freshChunks), p[:]...)
}

// conflictKey is the key of the n-th chunk that a set brings a second source.
func conflictKey(k rowstore.Keyspace, dst []byte, seq uint64, n uint32) []byte {
	return binary.BigEndian.AppendUint32(rowstore.AppendVersion(k.Key(dst, conflictList), seq), n)
}

// sortedChunks is distinct chunks, one behind the other in their order: the value of
// places.
func sortedChunks(chunks []rowstore.Identity) []byte {
	slices.SortFunc(chunks, func(a, b rowstore.Identity) int { return bytes.Compare(a[:], b[:]) })
	chunks = slices.Compact(chunks)
	value := make([]byte, 0, len(chunks)*len(rowstore.Identity{}))
	for _, c := range chunks {
		value = append(value, c[:]...)
	}
	return value
}

// hasChunk reports whether a chunk is among those that sortedChunks made.
func hasChunk(sorted []byte, chunk rowstore.Identity) bool {
	const size = len(chunk)
	at := func(i int) []byte { return sorted[i*size : (i+1)*size] }
	i := sort.Search(len(sorted)/size, func(i int) bool { return bytes.Compare(at(i), chunk[:]) >= 0 })
	return i < len(sorted)/size && bytes.Equal(at(i), chunk[:])
}

// listRow is the only row of sourceList.
var listRow = []byte{0}

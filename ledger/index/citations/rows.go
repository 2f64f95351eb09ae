package citations

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"colophon/ledger/index/rowstore"
)

// sourceState is the state of a source after a registration or revocation. It is the value type of
// sourceStates.
type sourceState struct {
	registered uint64 // 1 if the source is registered
	listed     uint64 // 1 if the registration lists the source's chunks
	chunks     uint64 // number of listed chunks
	// list is the identity of the listed chunks, or zero if the registration has no list.
	list rowstore.Identity
}

func (s *sourceState) append(dst []byte) []byte {
	dst = rowstore.AppendNumbers(dst, s.registered, s.listed, s.chunks)
	if s.listed == 0 {
		return dst
	}
	return append(dst, s.list[:]...)
}

func decodeSourceState(value []byte) (sourceState, error) {
	var s sourceState
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&s.registered, &s.listed, &s.chunks)
	if s.listed > 0 {
		r.ReadIdentity(&s.list)
	}
	return s, r.Finish("a source", value)
}

// pair is the identity of a source followed by the identity of a chunk. It is used in row keys.
type pair [2 * len(rowstore.Identity{})]byte

func pairOf(source, chunk rowstore.Identity) pair {
	var p pair
	copy(p[copy(p[:], source[:]):], chunk[:])
	return p
}

// citedState says whether the sets that cite a chunk of a source are fresh. It is the value type of
// citedChunks.
type citedState struct {
	fresh uint64 // 1 if a set has cited the chunk since it was last superseded
	from  uint64 // sets with a smaller seq are stale; 0 if the chunk was never superseded
	chunk []byte
}

func (s *citedState) append(dst []byte) []byte {
	return rowstore.AppendTexts(rowstore.AppendNumbers(dst, s.fresh, s.from), s.chunk)
}

func decodeCitedState(value []byte) (citedState, error) {
	var s citedState
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&s.fresh, &s.from)
	r.ReadTexts(&s.chunk)
	return s, r.Finish("a chunk of a source", value)
}

// supersession describes how a chunk of a source was superseded. It is the value type of
// supersessions. A set became stale if it cites the chunk and from <= seq < to.
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
	r.ReadNumbers(&s.how, &s.from, &s.to)
	r.ReadTexts(&s.chunk)
	if s.how >= uint64(len(supersededHow)) {
		r.Malformed = true
	}
	return s, r.Finish("a superseded chunk", value)
}

// supersededKey returns the key for the n-th chunk of a source that the event at seq supersedes.
func supersededKey(k rowstore.Keyspace, dst []byte, source rowstore.Identity, seq uint64, n uint32) []byte {
	dst = append(k.AppendPrefix(dst, supersessions), source[:]...)
	return binary.BigEndian.AppendUint32(rowstore.AppendVersion(dst, seq), n)
}

// freshChunkKey returns the key in freshChunks for a source and a chunk.
func freshChunkKey(k rowstore.Keyspace, dst []byte, p pair) []byte {
	return append(k.AppendPrefix(dst, freshChunks), p[:]...)
}

// conflictKey returns the key for the n-th chunk to which the set at seq adds a second source.
func conflictKey(k rowstore.Keyspace, dst []byte, seq uint64, n uint32) []byte {
	return binary.BigEndian.AppendUint32(rowstore.AppendVersion(k.AppendPrefix(dst, conflictList), seq), n)
}

// sortedChunks sorts chunks, removes duplicates, and returns their concatenation, which is the
// value format of places. The identities need not be those of chunks.
func sortedChunks(chunks []rowstore.Identity) []byte {
	slices.SortFunc(chunks, func(a, b rowstore.Identity) int { return bytes.Compare(a[:], b[:]) })
	chunks = slices.Compact(chunks)
	value := make([]byte, 0, len(chunks)*len(rowstore.Identity{}))
	for _, c := range chunks {
		value = append(value, c[:]...)
	}
	return value
}

// hasChunk reports whether sorted, a result of sortedChunks, contains the chunk.
func hasChunk(sorted []byte, chunk rowstore.Identity) bool {
	const size = len(chunk)
	at := func(i int) []byte { return sorted[i*size : (i+1)*size] }
	i := sort.Search(len(sorted)/size, func(i int) bool { return bytes.Compare(at(i), chunk[:]) >= 0 })
	return i < len(sorted)/size && bytes.Equal(at(i), chunk[:])
}

// listRow is the key of the only row in sourceList.
var listRow = []byte{0}

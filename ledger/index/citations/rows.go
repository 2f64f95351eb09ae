package citations

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"colophon/ledger/index/rowstore"
)

// sourceState is a source after a registration or revocation. It is the value of sourceStates.
type sourceState struct {
	registered uint64 // 1 if registered
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
	r.Numbers(&s.registered, &s.listed, &s.chunks)
	if s.listed > 0 {
		r.Identity(&s.list)
	}
	return s, r.Err("a source", value)
}

// pair is a source and a chunk in a row.
type pair [2 * len(rowstore.Identity{})]byte

func pairOf(source, chunk rowstore.Identity) pair {
	var p pair
	copy(p[copy(p[:], source[:]):], chunk[:])
	return p
}

// citedState says whether the sets that cite a chunk of a source are fresh. It is the value of
// citedChunks.
type citedState struct {
	fresh uint64 // 1 if a set has cited the chunk since it was last superseded
	from  uint64 // sets before this event are superseded; 0 if none has ever been
	chunk []byte // chunk_hash of the chunk
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

// supersession is a superseded chunk of a source. It is a value of supersessions. The sets at
// from..to-1 that cite the chunk became stale.
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

// supersededKey returns the key of the n-th chunk of a source that an event supersedes.
func supersededKey(k rowstore.Keyspace, dst []byte, source rowstore.Identity, seq uint64, n uint32) []byte {
	dst = append(k.Prefix(dst, supersessions), source[:]...)
	return binary.BigEndian.AppendUint32(rowstore.AppendVersion(dst, seq), n)
}

// freshChunkKey returns the key of a chunk of a source that fresh sets cite.
func freshChunkKey(k rowstore.Keyspace, dst []byte, p pair) []byte {
	return append(k.Prefix(dst, freshChunks), p[:]...)
}

// conflictKey returns the key of the n-th chunk to which a set adds a second source.
func conflictKey(k rowstore.Keyspace, dst []byte, seq uint64, n uint32) []byte {
	return binary.BigEndian.AppendUint32(rowstore.AppendVersion(k.Prefix(dst, conflictList), seq), n)
}

// sortedChunks returns the distinct chunks, sorted and concatenated, as in the value of places.
// It is also used for identities other than those of chunks.
func sortedChunks(chunks []rowstore.Identity) []byte {
	slices.SortFunc(chunks, func(a, b rowstore.Identity) int { return bytes.Compare(a[:], b[:]) })
	chunks = slices.Compact(chunks)
	value := make([]byte, 0, len(chunks)*len(rowstore.Identity{}))
	for _, c := range chunks {
		value = append(value, c[:]...)
	}
	return value
}

// hasChunk reports whether a result of sortedChunks contains a chunk.
func hasChunk(sorted []byte, chunk rowstore.Identity) bool {
	const size = len(chunk)
	at := func(i int) []byte { return sorted[i*size : (i+1)*size] }
	i := sort.Search(len(sorted)/size, func(i int) bool { return bytes.Compare(at(i), chunk[:]) >= 0 })
	return i < len(sorted)/size && bytes.Equal(at(i), chunk[:])
}

// listRow is the only row of sourceList.
var listRow = []byte{0}

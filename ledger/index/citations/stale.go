package citations

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// A set that cites a chunk of a source becomes stale when the chunk is superseded later. That
// happens if a later set cites the source at the same place without the chunk, or if the source is
// registered with a list that does not contain the chunk. A set is stale from the start if it cites
// a chunk that is not in the source's current list. A later set that cites a superseded chunk again
// is fresh until the chunk is superseded again.

// Ways in which a chunk of a source is superseded.
const (
	recited    = "recited"    // a later set cited the same place without the chunk
	registered = "registered" // the source was registered with a list that does not contain the chunk
	notListed  = "not_listed" // a set cited the chunk although it is not in the current list
)

// supersededHow maps byNewSet, byRegistration, and byList, which are stored in rows, to the names
// above.
var supersededHow = [...]string{recited, registered, notListed}

const (
	byNewSet uint64 = iota
	byRegistration
	byList
)

// superseding supersedes chunks on behalf of one event. n is the number of chunks superseded so
// far.
type superseding struct {
	fold *deriver
	seq  uint64
	n    uint32
}

// supersede marks a chunk of a source as superseded, so that the sets that cite it and whose seq is
// less than to become stale. It does nothing if all sets that cite the chunk are already stale.
func (s *superseding) supersede(p pair, how, to uint64) {
	f := s.fold
	_, value, found := f.Rows.NewestVersion(citedChunks, p[:])
	if !found {
		return
	}
	state := rowstore.DecodeOrFail(&f.Rows, value, decodeCitedState)
	if state.fresh == 0 {
		return
	}
	one := supersession{how: how, from: state.from, to: to, chunk: state.chunk}
	f.value = one.append(f.value[:0])
	f.Rows.Set(supersededKey(f.Rows.Keyspace, nil, rowstore.Identity(p[:len(rowstore.Identity{})]), s.seq, s.n), f.value)
	s.n++
	after := citedState{from: to, chunk: state.chunk}
	f.value = after.append(f.value[:0])
	f.Rows.Put(citedChunks, p[:], s.seq, f.value)
	f.Rows.Delete(freshChunkKey(f.Rows.Keyspace, nil, p))
	f.Counters.Add(counters.SeriesOf(counters.MetricStaleChunks), 1)
}

// supersedeUnlisted supersedes the chunks of a source that fresh sets cite but that listed does not
// contain. If the batch fills up, it stops and returns ErrBatchFull. Call it only when all earlier
// events and any earlier part of this event have been stored.
func (f *deriver) supersedeUnlisted(seq uint64, source rowstore.Identity, listed map[rowstore.Identity]bool) (err error) {
	s := superseding{fold: f, seq: seq}
	if s.n, err = f.supersededCount(source, seq); err != nil {
		return err
	}
	before := s.n
	prefix := append(f.Rows.Keyspace.AppendPrefix(nil, freshChunks), source[:]...)
	it, err := f.Rows.NewIterator(prefix, rowstore.UpperBound(prefix, len(rowstore.Identity{})))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		f.KeysRead++
		chunk := rowstore.Identity(it.Key()[len(prefix):])
		if listed[chunk] {
			continue
		}
		if int(s.n-before) == f.MaxBatchEffects {
			return index.ErrBatchFull
		}
		s.supersede(pairOf(source, chunk), byRegistration, seq)
	}
	return it.Err()
}

// supersededCount returns how many chunks of a source the event at seq has superseded in the
// batches stored so far.
func (f *deriver) supersededCount(source rowstore.Identity, seq uint64) (n uint32, err error) {
	first := supersededKey(f.Rows.Keyspace, nil, source, seq, 0)
	it, err := f.Rows.NewIterator(first, supersededKey(f.Rows.Keyspace, nil, source, seq, math.MaxUint32))
	if err != nil {
		return 0, err
	}
	if it.Last() {
		n = binary.BigEndian.Uint32(it.Key()[len(first)-4:]) + 1
	}
	return n, errors.Join(it.Err(), it.Close())
}

// placeOf returns the identity of the place that a citation refers to. The place is the cited
// section of the source or, if the section is null or empty, the subject of the set.
func placeOf(c *event.Citation, subject []byte) rowstore.Identity {
	if len(c.Section) > 0 {
		return rowstore.IdentityOf(c.SourceID, []byte("section"), c.Section)
	}
	return rowstore.IdentityOf(c.SourceID, []byte("subject"), subject)
}

// updatePlaces stores which chunks a set cites at each of its places, and supersedes the chunks
// that are no longer cited there.
func (s *superseding) updatePlaces(set *event.CitationSet) {
	var places []rowstore.Identity // places, sorted by first citation in the set
	sources := make(map[rowstore.Identity]rowstore.Identity)
	cited := make(map[rowstore.Identity][]rowstore.Identity)
	for i := range set.Citations {
		c := &set.Citations[i]
		place := placeOf(c, set.Subject)
		if _, known := sources[place]; !known {
			places = append(places, place)
			sources[place] = rowstore.IdentityOf(c.SourceID)
		}
		cited[place] = append(cited[place], rowstore.IdentityOf(c.ChunkHash))
	}
	for _, place := range places {
		s.replace(place, sources[place], sortedChunks(cited[place]))
	}
}

// replace stores chunks, a result of sortedChunks, as the chunks that are now cited at a place of a
// source. It supersedes the chunks that were cited there before but no longer are.
func (s *superseding) replace(place, source rowstore.Identity, chunks []byte) {
	f := s.fold
	_, value, found := f.Rows.NewestVersion(places, place[:])
	if found && bytes.Equal(value, chunks) {
		return
	}
	before := bytes.Clone(value)
	f.Rows.Put(places, place[:], s.seq, chunks)
	for ; len(before) >= len(rowstore.Identity{}); before = before[len(rowstore.Identity{}):] {
		chunk := rowstore.Identity(before[:len(rowstore.Identity{})])
		if !hasChunk(chunks, chunk) {
			s.supersede(pairOf(source, chunk), byNewSet, s.seq)
		}
	}
}

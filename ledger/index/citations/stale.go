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

// A set that cites a chunk of a source is stale when the chunk is superseded there
// after it: a later set cites the source at the same place without the chunk, or the
// source is registered with a list that does not have it. What is cited while the
// current list does not have it is stale at once. A later set that cites the chunk
// again is fresh until it is superseded again.

// How a chunk of a source was superseded.
const (
	recited    = "recited"    // a later set no longer has it at the place
	registered = "registered" // the source was registered without it
	notListed  = "not_listed" // it was cited although the current list lacks it
)

// supersededHow lists them, by their number in rows.
var supersededHow = [...]string{recited, registered, notListed}

const (
	byRecital uint64 = iota
	byRegistration
	byList
)

// superseding is the event that supersedes chunks, and how many it has.
type superseding struct {
	fold *deriver
	seq  uint64
	n    uint32
}

// supersede supersedes a chunk of a source for the sets below an event, unless all
// that cite it are stale already.
func (s *superseding) supersede(p pair, how, to uint64) {
	f := s.fold
	_, value, found := f.Rows.Newest(citedChunks, p[:])
	if !found {
		return
	}
	state := rowstore.Decode(&f.Rows, value, decodeCitedState)
	if state.fresh == 0 {
		return
	}
	one := supersession{how: how, from: state.from, to: to, chunk: state.chunk}
	f.value = one.append(f.value[:0])
	f.Rows.Set(supersededKey(f.Rows.Keys, nil, rowstore.Identity(p[:len(rowstore.Identity{})]), s.seq, s.n), f.value)
	s.n++
	after := citedState{from: to, chunk: state.chunk}
	f.value = after.append(f.value[:0])
	f.Rows.Put(citedChunks, p[:], s.seq, f.value)
	f.Rows.Delete(freshChunkKey(f.Rows.Keys, nil, p))
	f.Counters.Add(counters.SeriesOf(counters.StaleChunksTotal), 1)
}

// supersedeUnlisted supersedes what is cited of a source and not listed, as much as a
// batch takes: errUnfinished if something is left. All that precedes the event is
// stored, and of the event what was done before.
func (f *deriver) supersedeUnlisted(seq uint64, source rowstore.Identity, listed map[rowstore.Identity]bool) (err error) {
	s := superseding{fold: f, seq: seq}
	if s.n, err = f.supersededCount(source, seq); err != nil {
		return err
	}
	before := s.n
	prefix := append(f.Rows.Keys.Key(nil, freshChunks), source[:]...)
	it, err := f.Rows.Iterate(prefix, rowstore.UpperBound(prefix, len(rowstore.Identity{})))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		f.Touched++
		chunk := rowstore.Identity(it.Key()[len(prefix):])
		if listed[chunk] {
			continue
		}
		if int(s.n-before) == f.BatchSteps {
			return index.ErrUnfinished
		}
		s.supersede(pairOf(source, chunk), byRegistration, seq)
	}
	return it.Error()
}

// superseded is how many chunks of a source an event has superseded that is stored.
func (f *deriver) supersededCount(source rowstore.Identity, seq uint64) (n uint32, err error) {
	first := supersededKey(f.Rows.Keys, nil, source, seq, 0)
	it, err := f.Rows.Iterate(first, supersededKey(f.Rows.Keys, nil, source, seq, math.MaxUint32))
	if err != nil {
		return 0, err
	}
	if it.Last() {
		n = binary.BigEndian.Uint32(it.Key()[len(first)-4:]) + 1
	}
	return n, errors.Join(it.Error(), it.Close())
}

// placeOf is the place of a citation: its section of the source or, where that is
// null or empty, the subject of the set.
func placeOf(c *event.Citation, subject []byte) rowstore.Identity {
	if len(c.Section) > 0 {
		return rowstore.Identify(c.SourceID, []byte("section"), c.Section)
	}
	return rowstore.Identify(c.SourceID, []byte("subject"), subject)
}

// recite supersedes what a set no longer has at its places, and notes what it has
// there.
func (s *superseding) updatePlaces(set *event.CitationSet) {
	var places []rowstore.Identity // in the order of the set
	sources := make(map[rowstore.Identity]rowstore.Identity)
	cited := make(map[rowstore.Identity][]rowstore.Identity)
	for i := range set.Citations {
		c := &set.Citations[i]
		place := placeOf(c, set.Subject)
		if _, known := sources[place]; !known {
			places = append(places, place)
			sources[place] = rowstore.Identify(c.SourceID)
		}
		cited[place] = append(cited[place], rowstore.Identify(c.ChunkHash))
	}
	for _, place := range places {
		s.replace(place, sources[place], sortedChunks(cited[place]))
	}
}

// replace has a place of a source hold chunks, which are sorted, and supersedes those
// that it held before and does not any more.
func (s *superseding) replace(place, source rowstore.Identity, chunks []byte) {
	f := s.fold
	_, value, found := f.Rows.Newest(places, place[:])
	if found && bytes.Equal(value, chunks) {
		return
	}
	before := bytes.Clone(value)
	f.Rows.Put(places, place[:], s.seq, chunks)
	for ; len(before) >= len(rowstore.Identity{}); before = before[len(rowstore.Identity{}):] {
		chunk := rowstore.Identity(before[:len(rowstore.Identity{})])
		if !hasChunk(chunks, chunk) {
			s.supersede(pairOf(source, chunk), byRecital, s.seq)
		}
	}
}

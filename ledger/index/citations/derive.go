package citations

import (
	"context"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Names of the values by which citation sets can be looked up.
const (
	chunkName       = "chunk_hash"
	sourceName      = "source_id"
	sourceChunkName = "source_chunk" // source_id and chunk_hash of the same citation
)

// unregisteredSource flags a set that cites an unregistered source. No set is flagged until the
// first source has been registered (spec: Unregistered sources).
const unregisteredSource = "unregistered_source"

// deriver records what citation sets cite, which sources are registered, and which chunks are
// superseded.
type deriver struct {
	*index.Fold
	runSets *bool  // whether the dimension runSets has any row; nil if unknown
	value   []byte // scratch
}

// Derive implements Deriver.
func (f *deriver) Derive(_ context.Context, e *index.Event) error {
	switch e.Kind {
	case record.KindCitationSet:
		f.citationSet(e)
	case record.KindSourceRegistered, record.KindSourceRevoked:
		return f.sourceChanged(&e.Event)
	}
	return nil
}

func (f *deriver) citationSet(e *index.Event) {
	set := &e.CitationSet
	if f.citesUnregistered(set) {
		records.WritePosting(f.Fold, rowstore.IdentityOf([]byte(records.NameFlag), []byte(unregisteredSource)), e.Seq)
	}
	s := superseding{fold: f, seq: e.Seq}
	s.updatePlaces(set)
	f.cite(e.Seq, set, &s)
	f.addToRun(e.Seq, e.RunID(), set)
}

// cite writes the rows for a set's citations. It handles each pair of a source and a chunk only
// once.
func (f *deriver) cite(seq uint64, set *event.CitationSet, s *superseding) {
	posted := make(map[rowstore.Identity]bool, 3*len(set.Citations))
	added := newSources{fold: f, seq: seq, chunks: make(map[rowstore.Identity]*newChunk)}
	for i := range set.Citations {
		c := &set.Citations[i]
		if !f.writePostingOnce(seq, posted, sourceChunkName, c.SourceID, c.ChunkHash) {
			continue
		}
		f.writePostingOnce(seq, posted, sourceName, c.SourceID)
		f.writePostingOnce(seq, posted, chunkName, c.ChunkHash)
		source, chunk := rowstore.IdentityOf(c.SourceID), rowstore.IdentityOf(c.ChunkHash)
		p := pairOf(source, chunk)
		state := citedState{chunk: c.ChunkHash}
		_, value, cited := f.Rows.NewestVersion(citedChunks, p[:])
		if cited {
			state = rowstore.DecodeOrFail(&f.Rows, value, decodeCitedState)
		} else {
			added.add(chunk, c)
		}
		if state.fresh == 0 {
			state.fresh = 1
			f.value = state.append(f.value[:0])
			f.Rows.Put(citedChunks, p[:], seq, f.value)
			f.Rows.Set(freshChunkKey(f.Rows.Keyspace, nil, p), nil)
		}
		if f.unlisted(source, chunk) {
			s.supersede(p, byList, seq+1)
		}
	}
	added.write()
}

// writePostingOnce adds a posting for a value, which consists of name and parts, unless posted
// already contains the value. It reports whether it added the posting.
func (f *deriver) writePostingOnce(seq uint64, posted map[rowstore.Identity]bool, name string, parts ...[]byte) bool {
	id := rowstore.IdentityOf(append([][]byte{[]byte(name)}, parts...)...)
	if posted[id] {
		return false
	}
	posted[id] = true
	records.WritePosting(f.Fold, id, seq)
	return true
}

// citesUnregistered reports whether a set cites an unregistered source. It returns false as
// long as no source has been registered.
func (f *deriver) citesUnregistered(set *event.CitationSet) bool {
	if _, _, any := f.Rows.NewestVersion(sourceList, listRow); !any {
		return false
	}
	for i := range set.Citations {
		state, _, _ := f.sourceState(rowstore.IdentityOf(set.Citations[i].SourceID))
		if state.registered == 0 {
			return true
		}
	}
	return false
}

// newSources collects, for each chunk that a citation set cites, the sources from which no earlier set
// cited that chunk.
type newSources struct {
	fold      *deriver
	seq       uint64
	chunks    map[rowstore.Identity]*newChunk
	order     []rowstore.Identity // keys of the map chunks, sorted by first citation in the set
	conflicts uint32
}

// newChunk is a new version of a row of chunkSources. It contains the total number of the chunk's
// sources, and the IDs of the sources that the event adds.
type newChunk struct {
	sources uint64
	ids     []byte
}

// add adds the source of citation c to a chunk. If the chunk now has two sources, add also writes a
// conflict.
func (b *newSources) add(chunk rowstore.Identity, c *event.Citation) {
	f := b.fold
	one, known := b.chunks[chunk]
	if !known {
		one = new(newChunk)
		if _, value, found := f.Rows.NewestVersion(chunkSources, chunk[:]); found {
			r := rowstore.ValueReader{Rest: value}
			if r.ReadNumbers(&one.sources); r.Malformed {
				f.Rows.Failf("%w: cannot decode the sources of a chunk from %x", rowstore.ErrDamaged, value)
			}
		}
		b.chunks[chunk] = one
		b.order = append(b.order, chunk)
	}
	one.sources++
	one.ids = rowstore.AppendTexts(one.ids, c.SourceID)
	if one.sources == 2 {
		f.Rows.Set(conflictKey(f.Rows.Keyspace, nil, b.seq, b.conflicts), c.ChunkHash)
		f.Counters.Add(counters.SeriesOf(counters.MetricCitationConflicts), 1)
		b.conflicts++
	}
}

// write writes the new versions of all collected chunks to chunkSources.
func (b *newSources) write() {
	for _, chunk := range b.order {
		one := b.chunks[chunk]
		b.fold.value = append(rowstore.AppendNumbers(b.fold.value[:0], one.sources), one.ids...)
		b.fold.Rows.Put(chunkSources, chunk[:], b.seq, b.fold.value)
	}
}

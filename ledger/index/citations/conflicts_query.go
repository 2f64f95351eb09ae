package citations

import (
	"context"
	"encoding/binary"
	"fmt"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// maxSources is the maximum number of sources that a Conflict lists. Conflict.SourceCount counts all of
// them.
const maxSources = 16

// Conflict describes a chunk that is cited under more than one source.
type Conflict struct {
	Seq       uint64 // seq of the set that added the second source
	ChunkHash string // hash of the chunk, with the prefix "sha256:"
	// Sources are the first 16 sources, oldest first.
	Sources     []ChunkSource
	SourceCount uint64 // total number of sources
}

// ChunkSource is a source under which a chunk is cited.
type ChunkSource struct {
	ID  string // source_id of the source
	Seq uint64 // seq of the first set that cites the chunk under this source
}

// tailBytes is the length of the suffix of a key in conflictList or supersessions. The suffix
// consists of the seq of an event and a 4-byte number for one of its chunks.
const tailBytes = rowstore.SeqSize + 4

// ListConflicts returns the chunks that are cited under more than one source, latest conflict
// first.
func ListConflicts(v *index.View, page index.PageRequest) (rows []Conflict, next []byte, err error) {
	if v.Size() == 0 {
		return nil, nil, nil
	}
	keys := v.Keyspace
	prefix := keys.AppendPrefix(nil, conflictList)
	from, err := tailFrom(v, prefix, page)
	if err != nil {
		return nil, nil, err
	}
	var last []byte
	for kv, err := range v.Scan(from, keys.AppendPrefix(nil, conflictList+1)) {
		if err != nil {
			return nil, nil, err
		}
		if len(rows) == page.Limit {
			return rows, last, nil
		}
		one, err := conflictAt(v, string(kv.Value), v.Size())
		if err != nil {
			return nil, nil, err
		}
		rows, last = append(rows, one), append(last[:0], kv.Key[len(prefix):]...)
	}
	return rows, nil, nil
}

// tailFrom returns the key at which a page starts: just after the page's position or, for the first
// page, at the newest key that the view sees.
func tailFrom(v *index.View, prefix []byte, page index.PageRequest) ([]byte, error) {
	from := append([]byte(nil), prefix...)
	if page.After == nil {
		return rowstore.AppendVersion(from, v.Size()-1), nil
	}
	if len(page.After) != tailBytes || rowstore.DecodeVersion(page.After[:rowstore.SeqSize]) >= v.Size() {
		return nil, index.ErrInvalidPosition
	}
	return append(append(from, page.After...), 0), nil
}

// conflictAt returns a chunk and the sources under which it is cited by sets whose seq is less than
// below.
func conflictAt(v *index.View, chunkHash string, below uint64) (Conflict, error) {
	c := Conflict{ChunkHash: chunkHash}
	chunk := rowstore.IdentityOf([]byte(chunkHash))
	_, value, found, err := v.NewestVersionBelow(chunkSources, chunk[:], below)
	if err != nil || !found {
		return c, err
	}
	var size int
	if c.SourceCount, size = binary.Uvarint(value); size <= 0 {
		return c, fmt.Errorf("%w: cannot decode the sources of a chunk from %x", rowstore.ErrDamaged, value)
	}
	for r, err := range v.VersionsOldestFirst(chunkSources, chunk[:], 0) {
		if err != nil {
			return c, err
		}
		if r.Seq >= below || len(c.Sources) == maxSources {
			break
		}
		if err := c.add(r); err != nil {
			return c, err
		}
	}
	if len(c.Sources) > 1 {
		c.Seq = c.Sources[1].Seq
	}
	return c, nil
}

// add decodes the sources that one set added to the chunk, and appends them to c.Sources.
func (c *Conflict) add(r rowstore.Version) error {
	var count uint64
	values := rowstore.ValueReader{Rest: r.Value}
	values.ReadNumbers(&count)
	for len(values.Rest) > 0 && !values.Malformed && len(c.Sources) < maxSources {
		var id []byte
		values.ReadTexts(&id)
		c.Sources = append(c.Sources, ChunkSource{string(id), r.Seq})
	}
	if values.Malformed {
		return fmt.Errorf("%w: cannot decode the sources of a chunk from %x", rowstore.ErrDamaged, r.Value)
	}
	return nil
}

// ListSetConflicts returns those chunks of the citation set at seq for which this set and earlier
// sets together name more than one source. The chunks are sorted by their first citation in the set. ListSetConflicts returns storage.ErrNotFound if the event is of another kind.
func ListSetConflicts(ctx context.Context, v *index.View, seq uint64) ([]Conflict, error) {
	set, err := Get(ctx, v, seq)
	if err != nil {
		return nil, err
	}
	var conflicts []Conflict
	seen := make(map[string]bool)
	for _, citation := range set.Citations {
		if seen[citation.ChunkHash] {
			continue
		}
		seen[citation.ChunkHash] = true
		c, err := conflictAt(v, citation.ChunkHash, seq+1)
		if err != nil {
			return nil, err
		}
		if c.SourceCount > 1 {
			conflicts = append(conflicts, c)
		}
	}
	return conflicts, nil
}

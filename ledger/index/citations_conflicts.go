package index

import (
	"context"
	"encoding/binary"
	"fmt"
)

// maxSources bounds the sources that a conflict lists; it gives their number.
const maxSources = 16

// Conflict is one chunk that is cited under several sources.
type Conflict struct {
	Seq       uint64 // the set that brought the second source
	ChunkHash string
	// Sources are the first maxSources, in the order in which they came.
	Sources []ChunkSource
	Count   uint64 // of all sources
}

// ChunkSource is a source that a chunk is cited under.
type ChunkSource struct {
	ID  string
	Seq uint64 // the first set that cites the chunk under it
}

// tailBytes is the length of what stands behind the source, or the dimension, in keys
// of one event's chunks.
const tailBytes = seqBytes + 4

// Conflicts are the chunks that are cited under several sources, those that came to be
// so last first.
func (v *View) Conflicts(page Page) (rows []Conflict, next []byte, err error) {
	if v.size == 0 {
		return nil, nil, nil
	}
	keys := v.keys
	prefix := keys.key(nil, conflictList)
	from, err := v.tailFrom(prefix, page)
	if err != nil {
		return nil, nil, err
	}
	var last []byte
	for kv, err := range v.scan(from, keys.key(nil, conflictList+1)) {
		if err != nil {
			return nil, nil, err
		}
		if len(rows) == page.Limit {
			return rows, last, nil
		}
		one, err := v.conflict(string(kv.value), v.size)
		if err != nil {
			return nil, nil, err
		}
		rows, last = append(rows, one), append(last[:0], kv.key[len(prefix):]...)
	}
	return rows, nil, nil
}

// tailFrom is the first key that a page begins with: that behind its position, or the
// newest that the view sees.
func (v *View) tailFrom(prefix []byte, page Page) ([]byte, error) {
	from := append([]byte(nil), prefix...)
	if page.After == nil {
		return appendVersion(from, v.size-1), nil
	}
	if len(page.After) != tailBytes || versionOf(page.After[:seqBytes]) >= v.size {
		return nil, ErrPosition
	}
	return append(append(from, page.After...), 0), nil
}

// conflict is a chunk with its sources as they were below a size.
func (v *View) conflict(chunkHash string, below uint64) (Conflict, error) {
	c := Conflict{ChunkHash: chunkHash}
	chunk := identify([]byte(chunkHash))
	_, value, found, err := v.newestBelow(chunkSources, chunk[:], below)
	if err != nil || !found {
		return c, err
	}
	var size int
	if c.Count, size = binary.Uvarint(value); size <= 0 {
		return c, fmt.Errorf("%w: the sources of a chunk as %x", errDamaged, value)
	}
	for r, err := range v.ascend(chunkSources, chunk[:], 0) {
		if err != nil {
			return c, err
		}
		if r.seq >= below || len(c.Sources) == maxSources {
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

// add lists the sources that one set brought.
func (c *Conflict) add(r row) error {
	var count uint64
	values := valueReader{rest: r.value}
	values.numbers(&count)
	for len(values.rest) > 0 && !values.bad && len(c.Sources) < maxSources {
		var id []byte
		values.texts(&id)
		c.Sources = append(c.Sources, ChunkSource{string(id), r.seq})
	}
	if values.bad {
		return fmt.Errorf("%w: the sources of a chunk as %x", errDamaged, r.value)
	}
	return nil
}

// ConflictsOf are the chunks of the citation set at seq that are cited under several
// sources by that set and those before it, in the order of the set. storage.ErrNotFound
// if it is another kind of event.
func (v *View) ConflictsOf(ctx context.Context, seq uint64) ([]Conflict, error) {
	set, err := v.CitationSet(ctx, seq)
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
		c, err := v.conflict(citation.ChunkHash, seq+1)
		if err != nil {
			return nil, err
		}
		if c.Count > 1 {
			conflicts = append(conflicts, c)
		}
	}
	return conflicts, nil
}

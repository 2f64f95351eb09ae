package drift

import (
	"fmt"
	"math"
	"slices"
)

// ChunkChange describes how the chunks of two citation sets differ. Duplicate chunks are ignored
// (spec: Citation drift).
type ChunkChange struct {
	Added   []string // in the order of the later set
	Removed []string // in the order of the earlier set
	Kept    []string // in the order of the later set
	// Jaccard is the number of kept chunks divided by the number of distinct chunks in the two sets
	// together, rounded to six decimal places. It is 1 if both sets are empty.
	Jaccard float64
}

// CompareChunks returns how the chunk hashes changed from an earlier citation set, before, to a
// later one, after.
func CompareChunks(before, after []string) ChunkChange {
	r := ChunkChange{Jaccard: 1}
	earlier, later := distinct(before), distinct(after)
	for _, hash := range after {
		switch {
		case !later[hash]:
			continue // the chunk is a duplicate
		case has(earlier, hash):
			r.Kept = append(r.Kept, hash)
		default:
			r.Added = append(r.Added, hash)
		}
		later[hash] = false
	}
	for _, hash := range before {
		if earlier[hash] && !has(later, hash) {
			r.Removed = append(r.Removed, hash)
		}
		earlier[hash] = false
	}
	if all := len(r.Added) + len(r.Removed) + len(r.Kept); all > 0 {
		r.Jaccard = math.Round(float64(len(r.Kept))/float64(all)*1e6) / 1e6
	}
	return r
}

// distinct returns a map with the value true for each text. Callers set a value to false once
// they have listed the text.
func distinct(texts []string) map[string]bool {
	set := make(map[string]bool, len(texts))
	for _, text := range texts {
		set[text] = true
	}
	return set
}

func has[K comparable, V any](set map[K]V, key K) bool {
	_, ok := set[key]
	return ok
}

// Citation is the hash of a chunk and the ID of the source from which a citation set cites the
// chunk.
type Citation struct{ ChunkHash, SourceID string }

// CitationChange describes how two citation sets differ in their chunks, and in the sources of the
// chunks that both cite (spec: Evidence).
type CitationChange struct {
	ChunkChange
	SourceChanges []ChunkSourceChange // in the order of Kept
}

// ChunkSourceChange is a chunk that two sets cite from different sources. SourcesA and SourcesB are
// the sorted IDs of these sources in the first and the second set.
type ChunkSourceChange struct {
	ChunkHash          string
	SourcesA, SourcesB []string
}

// HasDifferences reports whether the sets cite different chunks, or the same chunk from different
// sources.
func (c *CitationChange) HasDifferences() bool {
	return len(c.Added)+len(c.Removed)+len(c.SourceChanges) > 0
}

// CompareCitations compares the citations of two sets, ignoring duplicates. The order of the
// citations affects only the order of the lists in the result.
func CompareCitations(before, after []Citation) CitationChange {
	chunks := func(list []Citation) (hashes []string) {
		for _, c := range list {
			hashes = append(hashes, c.ChunkHash)
		}
		return hashes
	}
	c := CitationChange{ChunkChange: CompareChunks(chunks(before), chunks(after))}
	earlier, later := sourcesOf(before), sourcesOf(after)
	for _, chunk := range c.Kept {
		if a, b := earlier[chunk], later[chunk]; !slices.Equal(a, b) {
			c.SourceChanges = append(c.SourceChanges, ChunkSourceChange{chunk, a, b})
		}
	}
	return c
}

// sourcesOf returns the distinct sources of each chunk, sorted.
func sourcesOf(citations []Citation) map[string][]string {
	sources := make(map[string][]string)
	for _, c := range citations {
		sources[c.ChunkHash] = append(sources[c.ChunkHash], c.SourceID)
	}
	for chunk, list := range sources {
		slices.Sort(list)
		sources[chunk] = slices.Compact(list)
	}
	return sources
}

// Sentence returns an English sentence about the difference.
func (c *CitationChange) Sentence() string {
	if !c.HasDifferences() {
		return "The citation sets cite the same chunks."
	}
	return fmt.Sprintf("The citation sets differ. Chunks added: %d, removed: %d, kept: %d, kept from other sources: %d.",
		len(c.Added), len(c.Removed), len(c.Kept), len(c.SourceChanges))
}

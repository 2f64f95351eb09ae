package drift

import "math"

// ChunkChange is the difference between two citation sets in their chunks, each counted once
// (spec: Citation drift).
type ChunkChange struct {
	Added   []string // in the order of the later set
	Removed []string // in the order of the earlier set
	Kept    []string // in the order of the later set
	// Jaccard is the number of kept chunks divided by the number of all, rounded to six
	// decimals. It is 1 if both sets are empty.
	Jaccard float64
}

// CompareChunks compares the chunk hashes of two citation sets.
func CompareChunks(before, after []string) ChunkChange {
	r := ChunkChange{Jaccard: 1}
	earlier, later := distinct(before), distinct(after)
	for _, hash := range after {
		switch {
		case !later[hash]:
			continue // a duplicate
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

// distinct returns a map with the value true for each text. Callers clear a text's value after
// they have listed it.
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

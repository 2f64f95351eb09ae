package drift

import "math"

// ChunkChange is how the chunks of a citation set stand to those of another, each
// counted once (spec: Citation drift).
type ChunkChange struct {
	Added   []string // in the order of the later set
	Removed []string // in the order of the earlier one
	Kept    []string // in the order of the later one
	// Jaccard is the share of the chunks of both that are kept, to six decimals; 1
	// where neither has any.
	Jaccard float64
}

// CompareChunks compares the chunk hashes of two citation sets.
func CompareChunks(before, after []string) ChunkChange {
	r := ChunkChange{Jaccard: 1}
	earlier, later := distinct(before), distinct(after)
	for _, hash := range after {
		switch {
		case !later[hash]:
			continue // named already
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

// distinct has a member for each text, true until that is named.
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

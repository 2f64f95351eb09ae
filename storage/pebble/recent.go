package pebble

import "colophon/storage"

// recentDigests is the maximum number of digests in each of the two sets of a ledger's recent.
const recentDigests = 8192

// recent remembers the digests of content that was posted more than once. Content that is posted
// again and again, such as a system prompt, then needs no lookup. recent can forget digests. It is
// not safe for concurrent use.
//
// New digests are added to the current set. When that set is full, it replaces the previous set. A
// lookup copies a digest from the previous set to the current set. Digests that were not looked up
// in time are forgotten with the previous set.
type recent struct {
	limit             int
	current, previous map[storage.Hash]struct{}
}

func newRecent(limit int) *recent {
	return &recent{limit: limit, current: make(map[storage.Hash]struct{})}
}

func (r *recent) has(digest storage.Hash) bool {
	if _, ok := r.current[digest]; ok {
		return true
	}
	if _, ok := r.previous[digest]; ok {
		r.add(digest)
		return true
	}
	return false
}

func (r *recent) add(digest storage.Hash) {
	if len(r.current) >= r.limit {
		r.previous, r.current = r.current, make(map[storage.Hash]struct{})
	}
	r.current[digest] = struct{}{}
}

func (r *recent) remove(digest storage.Hash) {
	delete(r.current, digest)
	delete(r.previous, digest)
}

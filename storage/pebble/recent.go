package pebble

import "colophon/storage"

// recentDigests bounds the digests of each of a ledger's two sets.
const recentDigests = 8192

// recent remembers digests of content that was posted repeatedly, so that content which
// repeats all the time, like a system prompt, costs no lookup. It may forget digests. It is
// not safe for concurrent use.
//
// New digests go into the young set. When that is full it replaces the old set, and digests
// that were not looked up since are forgotten.
type recent struct {
	limit      int
	young, old map[storage.Hash]struct{}
}

func newRecent(limit int) *recent {
	return &recent{limit: limit, young: make(map[storage.Hash]struct{})}
}

func (r *recent) has(digest storage.Hash) bool {
	if _, ok := r.young[digest]; ok {
		return true
	}
	if _, ok := r.old[digest]; ok {
		r.add(digest)
		return true
	}
	return false
}

func (r *recent) add(digest storage.Hash) {
	if len(r.young) >= r.limit {
		r.old, r.young = r.young, make(map[storage.Hash]struct{})
	}
	r.young[digest] = struct{}{}
}

func (r *recent) remove(digest storage.Hash) {
	delete(r.young, digest)
	delete(r.old, digest)
}

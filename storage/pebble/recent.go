package pebble

import "colophon/storage"

// recentDigests bounds how many digests a ledger remembers, twice over.
const recentDigests = 8192

// recent remembers digests of content that came again, so that what comes again
// and again (a system prompt) costs no lookup. It may forget, but never claims
// what is not held. Not safe for concurrent use.
//
// New digests go into the young set; when that is full it becomes the old one,
// and what was not asked for since is forgotten.
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

package index

import (
	"sync"
	"sync/atomic"
)

// Limits on the bytes of entries that wait in memory until a follower reads them: for one follower, and
// for all followers of a store together.
const (
	maxRecentBytes      = 24 << 20
	maxTotalRecentBytes = 48 << 20
)

// recentEntries keeps the entries of this process's latest commits until the follower has read them, so
// that it need not read them from the log. Its methods are safe for concurrent use.
type recentEntries struct {
	bytesLeft *atomic.Int64 // memory left for all followers of the store

	mu      sync.Mutex // guards the fields below
	first   uint64     // seq of entries[0]
	entries [][]byte
	bytes   int64
	closed  bool
}

// add appends the entries of a commit. If they do not follow the last entry, or would exceed
// maxRecentBytes, add first drops the older entries. If the new entries alone exceed maxRecentBytes, or the
// store has too little memory left, add keeps nothing.
func (r *recentEntries) add(first uint64, entries [][]byte) {
	size := int64(0)
	for _, entry := range entries {
		size += int64(len(entry))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first != r.first+uint64(len(r.entries)) || r.bytes+size > maxRecentBytes {
		r.drop(len(r.entries))
	}
	if r.closed || size > maxRecentBytes {
		return
	}
	if r.bytesLeft.Add(-size) < 0 {
		r.bytesLeft.Add(size)
		r.drop(len(r.entries))
		return
	}
	if len(r.entries) == 0 {
		r.first = first
	}
	r.entries, r.bytes = append(r.entries, entries...), r.bytes+size
}

// advanceTo drops the entries before seq and returns the entry at seq, or false if that is not in memory.
func (r *recentEntries) advanceTo(seq uint64) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq < r.first {
		return nil, false
	}
	r.drop(int(min(seq-r.first, uint64(len(r.entries)))))
	if len(r.entries) == 0 {
		return nil, false
	}
	return r.entries[0], true
}

// close drops all entries. After close, add keeps nothing.
func (r *recentEntries) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(len(r.entries))
	r.closed = true
}

// drop drops the first count entries. The caller must hold r.mu.
func (r *recentEntries) drop(count int) {
	size := int64(0)
	for i := range count {
		size += int64(len(r.entries[i]))
		r.entries[i] = nil
	}
	r.first += uint64(count)
	if r.entries = r.entries[count:]; len(r.entries) == 0 {
		r.entries = nil
	}
	r.bytes -= size
	r.bytesLeft.Add(size)
}

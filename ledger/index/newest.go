package index

import (
	"sync"
	"sync/atomic"
)

// Limits on the bytes of entries that wait in memory until a follower folds them: for one follower, and
// for all followers of a store together.
const (
	newestBytes      = 8 << 20
	totalNewestBytes = 64 << 20
)

// newest holds the newest entries of a log in memory until the follower folds them, so that it need not
// read back what this process has just committed. A reader that does not find an entry here reads it
// from the log. It is safe for concurrent use.
type newest struct {
	left *atomic.Int64 // bytes of memory left for all followers of the store

	mu      sync.Mutex // guards the fields below
	first   uint64     // seq of entries[0]
	entries [][]byte
	bytes   int64
	closed  bool
}

// add adds the entries of a commit. If they do not fit, it drops the older entries, and these too if
// they still do not fit.
func (n *newest) add(first uint64, entries [][]byte) {
	size := int64(0)
	for _, entry := range entries {
		size += int64(len(entry))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if first != n.first+uint64(len(n.entries)) || n.bytes+size > newestBytes {
		n.drop(len(n.entries))
	}
	if n.closed || size > newestBytes {
		return
	}
	if n.left.Add(-size) < 0 {
		n.left.Add(size)
		n.drop(len(n.entries))
		return
	}
	if len(n.entries) == 0 {
		n.first = first
	}
	n.entries, n.bytes = append(n.entries, entries...), n.bytes+size
}

// find drops all entries before seq, and returns the entry at seq. It returns false if the entry is not
// in memory.
func (n *newest) find(seq uint64) ([]byte, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if seq < n.first {
		return nil, false
	}
	n.drop(int(min(seq-n.first, uint64(len(n.entries)))))
	if len(n.entries) == 0 {
		return nil, false
	}
	return n.entries[0], true
}

// close drops all entries, and those of all later commits.
func (n *newest) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(len(n.entries))
	n.closed = true
}

// drop drops the first count entries. n.mu is held.
func (n *newest) drop(count int) {
	size := int64(0)
	for i := range count {
		size += int64(len(n.entries[i]))
		n.entries[i] = nil
	}
	n.first += uint64(count)
	if n.entries = n.entries[count:]; len(n.entries) == 0 {
		n.entries = nil
	}
	n.bytes -= size
	n.left.Add(size)
}

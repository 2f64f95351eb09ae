// Package recent keeps the latest checkpoints that a ledger on standby has published. Such a ledger
// does not sign checkpoints, so it cannot recreate them.
package recent

import (
	"slices"
	"sync"
)

// maxCheckpoints is the maximum number of checkpoints that are kept.
const maxCheckpoints = 1024

// Checkpoints holds the latest checkpoints of a ledger, keyed by size. The zero Checkpoints is ready
// to use. Its methods are safe for concurrent use.
type Checkpoints struct {
	mu    sync.Mutex
	sizes []uint64 // in ascending order; guarded by mu
	notes [][]byte // notes[i] is the checkpoint of size sizes[i]; guarded by mu
}

// Add remembers a checkpoint. Checkpoints must be added in order of increasing size.
func (c *Checkpoints) Add(size uint64, note []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sizes) == maxCheckpoints {
		c.sizes, c.notes = slices.Delete(c.sizes, 0, 1), slices.Delete(c.notes, 0, 1)
	}
	c.sizes, c.notes = append(c.sizes, size), append(c.notes, note)
}

// Get returns the checkpoint for the given size, or nil if it is not kept.
func (c *Checkpoints) Get(size uint64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, found := slices.BinarySearch(c.sizes, size); found {
		return c.notes[i]
	}
	return nil
}

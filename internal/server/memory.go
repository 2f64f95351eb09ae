package server

import (
	"colophon/internal/memory"
	"colophon/internal/size"
	"colophon/ledger/index"
)

// leastCache is the minimum default size of the block cache, in bytes. If the cache is smaller
// than the data that requests read at random, the slowest answers take longer: 1 GiB is too
// little for a million records.
const leastCache = 64 << 20

// WithCaches sets the sizes of caches that are not configured. Each gets a share of the usable
// memory, in bytes.
func (c Config) WithCaches(usable uint64) Config {
	setDefault(&c.Cache, size.Bytes(memory.Share(usable, 16, leastCache)))
	setDefault(&c.IndexCache, size.Bytes(memory.Share(usable, 16, index.DefaultMemory)))
	return c
}

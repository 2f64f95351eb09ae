package main

import (
	"math"

	"colophon/internal/cli"
	"colophon/ledger/index"
)

// What caches take where nothing is set, in bytes: a share of what there is, within
// bounds. A cache of less than what is asked for at random makes the slowest answers
// slower: 1 GiB is too little for a million records.
const (
	leastCache = 64 << 20
	mostMemory = 2 << 30
)

// usable is the memory that the process may use, in bytes; 0 if nothing is known of it.
func (m machine) usable() uint64 {
	have := uint64(m.goMemory)
	for _, limit := range [...]uint64{m.memory, m.memoryLimit} {
		if limit != 0 && (have == 0 || limit < have) {
			have = limit
		}
	}
	if have == math.MaxInt64 {
		return 0
	}
	return have
}

// share is one part of so many of the memory, but no less than least.
func (m machine) share(parts uint64, least int64) int64 {
	return max(least, int64(min(mostMemory, m.usable()/parts)))
}

// foldMemory is what building an index anew may take: no server runs beside it.
func foldMemory(m machine) int64 { return m.share(4, index.DefaultMemory) }

// withCaches sizes the caches that are not set.
func (c serveConfig) withCaches(m machine) serveConfig {
	setDefault(&c.Cache, cli.Size(m.share(16, leastCache)))
	setDefault(&c.IndexCache, cli.Size(m.share(16, index.DefaultMemory)))
	return c
}

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/ledger/index"
)

func TestCachesOfAServer(t *testing.T) {
	const gib = 1 << 30
	for name, of := range map[string]struct {
		c            serveConfig
		usable       uint64
		cache, index cli.Size
	}{
		"nothing is known": {serveConfig{}, 0, leastCache, index.DefaultMemory},
		"a small machine":  {serveConfig{}, 2 * gib, 2 * gib / 16, index.DefaultMemory},
		"a large machine":  {serveConfig{}, 128 * gib, 2 * gib, 2 * gib},
		"a limit":          {serveConfig{}, gib, leastCache, index.DefaultMemory},
		"a container":      {serveConfig{}, 8 * gib, gib / 2, gib / 2},
		"what is set":      {serveConfig{Cache: 1 << 20, IndexCache: 300 << 20}, 64 * gib, 1 << 20, 300 << 20},
	} {
		c := of.c.withCaches(of.usable)
		require.Equal(t, of.cache, c.Cache, name)
		require.Equal(t, of.index, c.IndexCache, name)
	}
}

package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/ledger/index"
)

func TestFoldMemory(t *testing.T) {
	const gib = 1 << 30
	for name, of := range map[string]struct {
		m    machine
		want int64
	}{
		"nothing is known":       {machine{goMemory: math.MaxInt64}, index.DefaultMemory},
		"a quarter":              {machine{memory: 2 * gib, goMemory: math.MaxInt64}, gib / 2},
		"enough is enough":       {machine{memory: 64 * gib, goMemory: math.MaxInt64}, 2 * gib},
		"no less than a server":  {machine{memory: gib / 2, goMemory: math.MaxInt64}, index.DefaultMemory},
		"of the control group":   {machine{memory: 64 * gib, memoryLimit: 3 * gib, goMemory: math.MaxInt64}, 3 * gib / 4},
		"of the runtime's limit": {machine{memory: 64 * gib, memoryLimit: 3 * gib, goMemory: 2 * gib}, gib / 2},
		"of what alone is known": {machine{goMemory: 2 * gib}, gib / 2},
	} {
		require.Equal(t, of.want, foldMemory(of.m), name)
	}
}

func TestCachesOfAServer(t *testing.T) {
	const gib = 1 << 30
	unset := int64(math.MaxInt64)
	for name, of := range map[string]struct {
		c            serveConfig
		m            machine
		cache, index cli.Size
	}{
		"nothing is known": {serveConfig{}, machine{goMemory: unset}, leastCache, index.DefaultMemory},
		"a small machine":  {serveConfig{}, machine{memory: 2 * gib, goMemory: unset}, 2 * gib / 16, index.DefaultMemory},
		"a large machine":  {serveConfig{}, machine{memory: 128 * gib, goMemory: unset}, 2 * gib, 2 * gib},
		"a limit":          {serveConfig{}, machine{memory: 64 * gib, goMemory: gib}, leastCache, index.DefaultMemory},
		"a control group":  {serveConfig{}, machine{memory: 64 * gib, memoryLimit: 8 * gib, goMemory: unset}, gib / 2, gib / 2},
		"what is set":      {serveConfig{Cache: 1 << 20, IndexCache: 300 << 20}, machine{memory: 64 * gib, goMemory: unset}, 1 << 20, 300 << 20},
	} {
		c := of.c.withCaches(of.m)
		require.Equal(t, of.cache, c.Cache, name)
		require.Equal(t, of.index, c.IndexCache, name)
	}
}

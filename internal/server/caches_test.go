package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/size"
	"colophon/ledger/index"
)

func TestCachesOfAServer(t *testing.T) {
	const gib = 1 << 30
	for name, of := range map[string]struct {
		c            Config
		usable       uint64
		cache, index size.Bytes
	}{
		"nothing is known": {Config{}, 0, minCache, index.DefaultMemory},
		"a small machine":  {Config{}, 2 * gib, 2 * gib / 16, index.DefaultMemory},
		"a large machine":  {Config{}, 128 * gib, 2 * gib, 2 * gib},
		"a limit":          {Config{}, gib, minCache, index.DefaultMemory},
		"a container":      {Config{}, 8 * gib, gib / 2, gib / 2},
		"what is set":      {Config{Cache: 1 << 20, IndexCache: 300 << 20}, 64 * gib, 1 << 20, 300 << 20},
	} {
		c := of.c.WithCaches(of.usable)
		require.Equal(t, of.cache, c.Cache, name)
		require.Equal(t, of.index, c.IndexCache, name)
	}
}

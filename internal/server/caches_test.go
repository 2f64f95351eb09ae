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
		"nothing is known": {Config{}, 0, minCache, index.DefaultMemoryBytes},
		"a small machine":  {Config{}, 2 * gib, 2 * gib / 16, index.DefaultMemoryBytes},
		"a large machine":  {Config{}, 128 * gib, 2 * gib, 2 * gib},
		"a limit":          {Config{}, gib, minCache, index.DefaultMemoryBytes},
		"a container":      {Config{}, 8 * gib, gib / 2, gib / 2},
		"what is set":      {Config{DatabaseCacheSize: 1 << 20, IndexCacheSize: 300 << 20}, 64 * gib, 1 << 20, 300 << 20},
	} {
		c := of.c.WithDefaultCacheSizes(of.usable)
		require.Equal(t, of.cache, c.DatabaseCacheSize, name)
		require.Equal(t, of.index, c.IndexCacheSize, name)
	}
}

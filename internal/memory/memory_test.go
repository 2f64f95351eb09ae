package memory_test

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/memory"
)

const gib = 1 << 30

func TestShare(t *testing.T) {
	for name, of := range map[string]struct {
		usable uint64
		want   int64
	}{
		"nothing is known":   {0, 256 << 20},
		"a quarter":          {2 * gib, gib / 2},
		"no more than 2 GiB": {64 * gib, 2 * gib},
		"no less than least": {gib / 2, 256 << 20},
	} {
		require.Equal(t, of.want, memory.CacheSize(of.usable, 4, 256<<20), name)
	}
}

func TestUsable(t *testing.T) {
	all := memory.UsableBytes()
	require.NotZero(t, all, "every system that the tests run on reports its memory")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	require.EqualValues(t, 64<<20, memory.UsableBytes())
	debug.SetMemoryLimit(1 << 60)
	require.Less(t, memory.UsableBytes(), uint64(1<<60), "no machine has that much")
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits            memory.Limits
		available, usable uint64
	}{
		"nothing is known":       {memory.Limits{}, 0, 0},
		"a machine":              {memory.Limits{Machine: 8 * gib}, 8 * gib, 8 * gib},
		"a container":            {memory.Limits{Machine: 8 * gib, Container: 2 * gib}, 2 * gib, 2 * gib},
		"GOMEMLIMIT":             {memory.Limits{Machine: 8 * gib, Container: 2 * gib, Runtime: gib}, 2 * gib, gib},
		"GOMEMLIMIT is too high": {memory.Limits{Machine: 8 * gib, Runtime: 9 * gib}, 8 * gib, 8 * gib},
	} {
		require.Equal(t, c.available, c.limits.AvailableBytes(), name)
		require.Equal(t, c.usable, c.limits.UsableBytes(), name)
	}
}

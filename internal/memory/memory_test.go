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
		"nothing is known":     {0, 256 << 20},
		"a quarter":            {2 * gib, gib / 2},
		"no more than 2 GiB":   {64 * gib, 2 * gib},
		"no less than is said": {gib / 2, 256 << 20},
	} {
		require.Equal(t, of.want, memory.Share(of.usable, 4, 256<<20), name)
	}
}

func TestUsable(t *testing.T) {
	all := memory.Usable()
	require.NotZero(t, all, "every system that the tests run on says what it has")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	require.EqualValues(t, 64<<20, memory.Usable())
	debug.SetMemoryLimit(1 << 60)
	require.Less(t, memory.Usable(), uint64(1<<60), "the machine has less")
}

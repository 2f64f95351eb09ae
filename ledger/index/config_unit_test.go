package index

import (
	"cmp"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// The memory limits of the parts of an index add up to at most the limit of the whole index.
func TestMemoryIsDivided(t *testing.T) {
	for _, memory := range []int64{0, MinMemoryBytes, 1 << 30, 64 << 30} {
		for _, rebuild := range []bool{false, true} {
			c, err := Config{Dir: "x", Logger: slog.New(slog.DiscardHandler), MemoryBytes: memory, Rebuild: rebuild}.Resolve()
			require.NoError(t, err)
			require.LessOrEqual(t, c.RowStore.CacheBytes+2*c.MaxBatchBytes+c.RowCacheBytes+c.FilterBytes+c.EventCacheBytes+c.MaxDeferredGroups*deferredBytes, int(cmp.Or(memory, DefaultMemoryBytes)))
			require.GreaterOrEqual(t, c.RowStore.MemTableBytes, 256<<10)
			require.Less(t, 2*c.RowStore.MemTableBytes, c.RowStore.CacheBytes, "two memtables can wait to be written")
		}
	}
	_, err := Config{Dir: "x", MemoryBytes: MinMemoryBytes - 1}.Resolve()
	require.ErrorContains(t, err, "it must be at least 16777216")
	_, err = Config{}.Resolve()
	require.ErrorContains(t, err, "Config.Dir is not set")
}

func TestOffHeapBytes(t *testing.T) {
	require.Zero(t, OffHeapBytes(0))
	require.Zero(t, OffHeapBytes(minMemoryForEventCache-1))
	require.Equal(t, int64(128<<20), OffHeapBytes(minMemoryForEventCache))
	require.Zero(t, OffHeapBytes(1))
}

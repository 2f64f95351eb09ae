package index

import (
	"cmp"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the parts of an index take is no more than what all of it may.
func TestMemoryIsSharedOut(t *testing.T) {
	for _, memory := range []int64{0, LeastMemory, 1 << 30, 64 << 30} {
		for _, anew := range []bool{false, true} {
			c, err := Config{Dir: "x", Log: slog.New(slog.DiscardHandler), Memory: memory, Anew: anew}.Settings()
			require.NoError(t, err)
			require.LessOrEqual(t, c.Rows.CacheBytes+2*c.BatchBytes+c.KeptBytes+c.FilterBytes+c.EventCacheBytes+c.MostDeferred*deferredBytes, int(cmp.Or(memory, DefaultMemory)))
			require.GreaterOrEqual(t, c.Rows.MemTableBytes, 256<<10)
			require.Less(t, 2*c.Rows.MemTableBytes, c.Rows.CacheBytes, "two memtables wait to be written")
		}
	}
	_, err := Config{Dir: "x", Memory: LeastMemory - 1}.Settings()
	require.ErrorContains(t, err, "it needs 16777216")
	_, err = Config{}.Settings()
	require.ErrorContains(t, err, "no folder")
}

func TestMemoryBesideTheRuntimes(t *testing.T) {
	require.Zero(t, KeptBytes(0))
	require.Zero(t, KeptBytes(ampleMemory-1))
	require.Equal(t, int64(128<<20), KeptBytes(ampleMemory))
	require.Zero(t, KeptBytes(1))
}

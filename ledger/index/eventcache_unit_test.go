package index

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// When the cache is full, it drops the oldest events.
func TestEventCacheIsBounded(t *testing.T) {
	k := newEventCache(MinEventCacheBytes)
	defer k.close()
	value := make([]byte, 60_000)
	const count = 3 * cachePart / 60_000
	for seq := range uint64(count) {
		LogEventCache{k, 1}.Add(seq, value)
	}
	found := 0
	for seq := range uint64(count) {
		if kept, ok := (LogEventCache{k, 1}).Find(nil, seq); ok {
			require.Equal(t, value, kept)
			found++
		}
	}
	require.LessOrEqual(t, found*len(value), cachePart)
	require.NotZero(t, found)
	_, ok := LogEventCache{k, 1}.Find(nil, count-1)
	require.True(t, ok)
	_, ok = LogEventCache{k, 2}.Find(nil, count-1)
	require.False(t, ok, "logs do not share cached events")
}

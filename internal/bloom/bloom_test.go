package bloom

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func key(n int) Key {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return Key(sum[:])
}

// MayContain returns true for every added key and for less than 1 % of other keys.
func TestFilter(t *testing.T) {
	const count = 4 * first * blockKeys
	var spare atomic.Int64
	spare.Store(1 << 20)
	f := New(SharedReserveFunc(&spare))
	require.False(t, f.MayContain(key(0)))
	for n := range count {
		f.Add(key(n))
	}
	absent := 0
	for n := range count {
		require.True(t, f.MayContain(key(n)))
		if f.MayContain(key(count + n)) {
			absent++
		}
	}
	require.Less(t, absent, count/100)
}

// A filter that runs out of memory returns true for every key, and releases all its memory.
func TestFilterIsBounded(t *testing.T) {
	const bytes = 3 * first * blockBytes
	var spare atomic.Int64
	spare.Store(bytes)
	f := New(SharedReserveFunc(&spare))
	added := 0
	for ; !f.released; added++ {
		f.Add(key(added))
		require.GreaterOrEqual(t, spare.Load(), int64(0))
	}
	require.Greater(t, added, 3*first*blockKeys)
	require.Equal(t, int64(bytes), spare.Load())
	f.Add(key(added))
	require.True(t, f.MayContain(key(-1)))
	require.Equal(t, int64(bytes), spare.Load())
}

func BenchmarkMayContain(b *testing.B) {
	var spare atomic.Int64
	spare.Store(1 << 30)
	f := New(SharedReserveFunc(&spare))
	for n := range 1_000_000 {
		f.Add(key(n))
	}
	absent := make([]Key, 1<<12)
	for n := range absent {
		absent[n] = key(-1 - n)
	}
	b.ResetTimer()
	for n := range b.N {
		f.MayContain(absent[n%len(absent)])
	}
}

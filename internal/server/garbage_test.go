package server

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGarbageShare(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 100, 50 << 20: 100, 128 << 20: 100, 160 << 20: 80, 256 << 20: 50, 512 << 20: 25, 4 << 30: 16,
	} {
		require.Equal(t, want, garbageShare(live, math.MaxInt64), "%d MiB", live>>20)
	}
	require.Equal(t, 16, garbageShare(1<<30, 4<<30))
	require.Equal(t, 100, garbageShare(1<<30+1, 4<<30), "only the memory limit must bound the garbage")
}

// shareNow returns the current value of GOGC.
func shareNow() int {
	share := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(share)
	return int(share[0].Value.Uint64())
}

// GOGC falls when a lot of memory is in use, rises when the memory is free again, and returns to
// the default when pacing ends.
func TestGarbageIsPaced(t *testing.T) {
	if before := shareNow(); before != defaultGCPercent {
		t.Skipf("GOGC is %d", before)
	}
	end := paceGarbage(func(string) (string, bool) { return "", false })
	comes := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool { runtime.GC(); return shareNow() == want }, time.Minute, time.Millisecond)
	}
	inUse := make([]byte, 1<<30) // uses no physical memory, because its pages are never touched
	comes(minGCPercent)
	runtime.KeepAlive(inUse)
	inUse = nil
	comes(defaultGCPercent)
	inUse = make([]byte, 1<<30)
	comes(minGCPercent)
	end()
	require.Equal(t, defaultGCPercent, shareNow())
	runtime.GC()
	runtime.GC()
	require.Equal(t, defaultGCPercent, shareNow(), "the percentage must be the default after pacing has ended")
	runtime.KeepAlive(inUse)
}

func TestEnvironmentSetsGarbage(t *testing.T) {
	defer paceGarbage(func(name string) (string, bool) { return "50", name == "GOGC" })()
	inUse := make([]byte, 1<<30)
	before := shareNow()
	runtime.GC()
	runtime.GC()
	require.Equal(t, before, shareNow())
	runtime.KeepAlive(inUse)
}

func TestMemoryBesideTheLimit(t *testing.T) {
	before := debug.SetMemoryLimit(4 << 30)
	defer debug.SetMemoryLimit(before)
	for beside, want := range map[int64]int64{0: 4 << 30, 1 << 30: 3 << 30, 5 << 30: 2 << 30} {
		end := reserveOffHeap(beside)
		require.Equal(t, want, debug.SetMemoryLimit(-1))
		end()
		require.Equal(t, int64(4<<30), debug.SetMemoryLimit(-1))
	}
	debug.SetMemoryLimit(math.MaxInt64)
	reserveOffHeap(1 << 30)()
	require.Equal(t, int64(math.MaxInt64), debug.SetMemoryLimit(-1))
}

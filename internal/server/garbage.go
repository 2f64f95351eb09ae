package server

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// usualGarbage is the runtime's default garbage, GOGC, in percent of the memory in use.
const usualGarbage = 100

// Bounds of garbage: enoughGarbage in bytes, but at least leastGarbage percent of the memory in
// use, which bounds the cost of collection. Caches count as in use but produce little garbage, so
// GOGC=100 would let garbage take as much memory again, all of it cold in the processor's caches.
// Against GOGC=100, batches over 8 connections: the peak memory is 7 % smaller with caches
// that are filling (0.93, 4 rounds each) and was 27 % smaller with full ones, at the same
// CPU time.
const (
	enoughGarbage = 128 << 20
	leastGarbage  = 16
)

// garbageShare returns the GOGC for live bytes in use, in percent. If live is more than a quarter
// of the limit (GOMEMLIMIT), the limit alone bounds garbage.
func garbageShare(live, limit uint64) int {
	if live > limit/4 {
		return usualGarbage
	}
	return int(max(leastGarbage, min(usualGarbage, enoughGarbage*100/max(live, 1))))
}

// besideLimit lowers GOMEMLIMIT, if it is set, by the bytes that the process has outside the
// runtime's memory, until end is called. Operators set GOMEMLIMIT for the whole process.
func besideLimit(bytes int64) (end func()) {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(max(limit/2, limit-bytes))
	return func() { debug.SetMemoryLimit(limit) }
}

// garbagePace sets the share of garbage after each collection. It is the process's:
// there is one where a server runs.
type garbagePace struct {
	mu    sync.Mutex
	share int
	ended bool
}

// paceGarbage keeps garbage from growing with the caches until end, unless the
// environment has a share of its own (GOGC).
func paceGarbage(env func(string) (string, bool)) (end func()) {
	if share, set := env("GOGC"); set && share != "" {
		return func() {}
	}
	p := &garbagePace{share: usualGarbage}
	p.collected()
	return p.end
}

// collected follows a collection, and has the next one followed.
func (p *garbagePace) collected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	p.set(garbageShare(live[0].Value.Uint64(), uint64(debug.SetMemoryLimit(-1))))
	// What nothing refers to is cleaned up behind the collection that finds it.
	type unused struct{ _ *byte }
	runtime.AddCleanup(new(unused), (*garbagePace).collected, p)
}

// set sets the share if it is another one. The caller holds mu.
func (p *garbagePace) set(share int) {
	if share != p.share {
		p.share = share
		debug.SetGCPercent(share)
	}
}

func (p *garbagePace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.set(usualGarbage)
}

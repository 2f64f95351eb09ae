package index

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelRow is a version as the cache has to give it back.
type modelRow struct {
	seq   uint64
	value string
	found bool
}

// What was kept or found since the last turn but one is there as it was kept last, and
// nothing else is.
func TestRowCacheEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 4000).Draw(t, "limit")
		var cache rowCache
		cache.turn(limit)
		young, old := make(map[string]modelRow), make(map[string]modelRow)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			name := fmt.Sprintf("row %d", rapid.IntRange(0, 40).Draw(t, "row"))
			switch few(t, "step", "keep", "keep", "find", "find", "turn") {
			case "keep":
				r := modelRow{rapid.Uint64().Draw(t, "seq"), rapid.StringN(0, 60, -1).Draw(t, "value"), rapid.Bool().Draw(t, "found")}
				got := cache.keep([]byte(name), version{r.seq, []byte(r.value), r.found})
				require.Equal(t, r, modelRow{got.seq, string(got.value), got.found})
				young[name] = r
			case "find":
				want, kept := young[name]
				if !kept {
					if want, kept = old[name]; kept {
						young[name] = want
					}
				}
				got, found := cache.find([]byte(name))
				require.Equal(t, kept, found)
				require.Equal(t, want, modelRow{got.seq, string(got.value), got.found})
			case "turn":
				if cache.young.used >= limit/4 {
					young, old = make(map[string]modelRow), young
				}
				cache.turn(limit)
			}
		}
	})
}

// Memory is used again, and what single large values took is not kept.
func TestRowCacheIsBounded(t *testing.T) {
	const limit = 1 << 20
	var cache rowCache
	value := bytes.Repeat([]byte("x"), 200)
	for n := range 100_000 {
		if n%3000 == 0 {
			value = bytes.Repeat([]byte("x"), 200)
		} else if n%3000 == 1 {
			cache.keep(fmt.Appendf(nil, "large %d", n), version{1, bytes.Repeat(value, 1000), true})
		}
		if cache.young.heads == nil || cache.full(limit) {
			cache.turn(limit)
		}
		cache.keep(fmt.Appendf(nil, "row %d", n), version{uint64(n), value, true})
		require.LessOrEqual(t, cache.young.used, limit/2+1000*len(value)+1000)
	}
	for range 3 { // no large values any more
		for n := 0; !cache.full(limit); n++ {
			cache.keep(fmt.Appendf(nil, "row %d", n), version{uint64(n), value, true})
		}
		cache.turn(limit)
	}
	for _, g := range []*generation{&cache.young, &cache.old} {
		held := cap(g.heads)*4 + cap(g.entries)*entryBytes
		for _, block := range g.blocks {
			held += len(block)
		}
		require.LessOrEqual(t, held, limit)
	}
}

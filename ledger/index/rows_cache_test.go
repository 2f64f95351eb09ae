package index

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelStretch is a stretch as the cache has to give it back: its versions.
type modelStretch []row

// add adds a version, in place of one that has its seq.
func (m modelStretch) add(seq uint64, value []byte) modelStretch {
	if last := len(m) - 1; m[last].seq == seq {
		m = m[:last:last]
	}
	return append(m[:len(m):len(m)], row{seq, value})
}

// encode writes a stretch by other means than the cache's.
func (m modelStretch) encode() []byte {
	var encoded []byte
	for i, v := range m {
		if i > 0 {
			encoded = appendNumbers(encoded, v.seq-m[i-1].seq)
		}
		encoded = append(appendNumbers(encoded, uint64(len(v.value))), v.value...)
	}
	return encoded
}

// requireKept fails unless a row is kept as the model has it, and its newest version
// found.
func requireKept(t tester, want modelStretch, g *generation, at place) {
	t.Helper()
	e := &g.entries[at]
	seq, value, found := g.newest(at)
	require.Equal(t, len(want) > 0, found)
	require.Equal(t, found, e.found)
	if !found {
		return
	}
	require.Equal(t, want.encode(), g.stretchOf(e))
	newest := want[len(want)-1]
	require.Equal(t, newest.seq, seq)
	require.Equal(t, string(newest.value), string(value))
	again, err := spanOf(e.first, g.stretchOf(e))
	require.NoError(t, err)
	require.Equal(t, again, e.span)
	require.Equal(t, want[0].seq, e.first)
}

// What was kept or found since the last turn but one is there as it was changed last,
// and nothing else is.
func TestRowCacheEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 4000).Draw(t, "limit")
		var cache rowCache
		cache.turn(limit)
		young, old := make(map[string]modelStretch), make(map[string]modelStretch)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if few(t, "step", "use", "use", "use", "turn") == "turn" {
				if cache.young.used >= limit/8*3 {
					young, old = make(map[string]modelStretch), young
				}
				cache.turn(limit)
				continue
			}
			name := fmt.Sprintf("row %d", rapid.IntRange(0, 40).Draw(t, "row"))
			value := []byte(rapid.StringN(0, 60, -1).Draw(t, "value"))
			seq := rapid.Uint64Range(0, 1<<40).Draw(t, "seq")
			want, kept := young[name]
			if !kept {
				want, kept = old[name]
			}
			at := cache.find([]byte(name))
			require.Equal(t, kept, at != 0)
			switch what := few(t, "what", "add", "add", "replace", "keep", "find"); {
			case !kept && what != "find" || what == "keep":
				want = modelStretch{{seq, value}}[:rapid.IntRange(0, 1).Draw(t, "versions")]
				s := span{}
				if len(want) > 0 {
					s = spanFrom(seq)
				}
				at = cache.keep([]byte(name), s, want.encode())
			case at == 0:
				continue
			case what == "replace":
				want = modelStretch{{seq, value}}
				cache.young.replace(at, spanFrom(seq), want.encode())
			case what == "add" && len(want) > 0:
				seq = want[len(want)-1].seq + rapid.Uint64Range(0, 300).Draw(t, "distance")
				full := len(want.encode()) >= stretchBytes && seq > want[len(want)-1].seq
				require.Equal(t, !full, cache.young.takes(at, seq))
				before := len(want.encode())
				want = want.add(seq, value)
				require.Equal(t, len(want.encode())-before, cache.young.add(at, seq, value))
			}
			young[name] = want
			requireKept(t, want, &cache.young, at)
		}
	})
}

// Memory is used again, and what single large values took is not kept.
func TestRowCacheIsBounded(t *testing.T) {
	const limit = 1 << 20
	var cache rowCache
	keep := func(name string, n int, value []byte) {
		cache.keep([]byte(name), spanFrom(uint64(n)), appendValue(nil, value))
	}
	value := bytes.Repeat([]byte("x"), 200)
	for n := range 100_000 {
		if cache.young.heads == nil || cache.full(limit) {
			cache.turn(limit)
		}
		if n%3000 == 1 {
			keep(fmt.Sprintf("large %d", n), n, bytes.Repeat(value, 1000))
		}
		keep(fmt.Sprintf("row %d", n), n, value)
		require.LessOrEqual(t, cache.young.used, limit/2+1000*len(value)+1000)
	}
	for range 3 { // no large values any more
		for n := 0; !cache.full(limit); n++ {
			keep(fmt.Sprintf("row %d", n), n, value)
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

package rowstore

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelRun is a model of a version run: the versions of one row, ordered by seq.
type modelRun []Version

// add appends a version, or replaces the last one if that has the same seq.
func (m modelRun) add(seq uint64, value []byte) modelRun {
	if last := len(m) - 1; m[last].Seq == seq {
		m = m[:last:last]
	}
	return append(m[:len(m):len(m)], Version{seq, value})
}

// encode encodes a version run independently of the cache.
func (m modelRun) encode() []byte {
	var encoded []byte
	for i, v := range m {
		if i > 0 {
			encoded = AppendNumbers(encoded, v.Seq-m[i-1].Seq)
		}
		encoded = append(AppendNumbers(encoded, uint64(len(v.Value))), v.Value...)
	}
	return encoded
}

// requireKept fails the test unless the cached row agrees with the model.
func requireKept(t *rapid.T, want modelRun, g *generation, at place) {
	t.Helper()
	e := g.entry(at)
	seq, value, found := g.newest(at)
	require.Equal(t, len(want) > 0, found)
	require.Equal(t, found, e.found)
	if !found {
		return
	}
	require.Equal(t, want.encode(), g.runOf(e))
	newest := want[len(want)-1]
	require.Equal(t, newest.Seq, seq)
	require.Equal(t, string(newest.Value), string(value))
	again, err := spanOf(e.first, g.runOf(e))
	require.NoError(t, err)
	require.Equal(t, again, e.span)
	require.Equal(t, want[0].Seq, e.first)
}

// The cache contains exactly the rows that were added or found since the second-to-last rotation,
// each with its latest change.
func TestRowCacheEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 4000).Draw(t, "limit")
		var cache rowCache
		cache.rotate(limit)
		current, previous := make(map[string]modelRun), make(map[string]modelRun)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.SampledFrom([]string{"use", "use", "use", "turn"}).Draw(t, "step") == "turn" {
				if cache.current.used >= limit/8*3 {
					current, previous = make(map[string]modelRun), current
				}
				cache.rotate(limit)
				continue
			}
			name := fmt.Sprintf("row %d", rapid.IntRange(0, 40).Draw(t, "row"))
			value := []byte(rapid.StringN(0, 60, -1).Draw(t, "value"))
			seq := rapid.Uint64Range(0, 1<<40).Draw(t, "seq")
			want, kept := current[name]
			if !kept {
				want, kept = previous[name]
			}
			at := cache.find([]byte(name))
			require.Equal(t, kept, at != 0)
			switch what := rapid.SampledFrom([]string{"add", "add", "replace", "keep", "find"}).Draw(t, "what"); {
			case !kept && what != "find" || what == "keep":
				want = modelRun{{seq, value}}[:rapid.IntRange(0, 1).Draw(t, "versions")]
				s := span{}
				if len(want) > 0 {
					s = spanFrom(seq)
				}
				at = cache.put([]byte(name), s, want.encode())
			case at == 0:
				continue
			case what == "replace":
				want = modelRun{{seq, value}}
				cache.current.replace(at, spanFrom(seq), want.encode())
			case what == "add" && len(want) > 0:
				seq = want[len(want)-1].Seq + rapid.Uint64Range(0, 300).Draw(t, "distance")
				full := len(want.encode()) >= runBytes && seq > want[len(want)-1].Seq
				require.Equal(t, !full, cache.current.accepts(at, seq))
				before := len(want.encode())
				want = want.add(seq, value)
				require.Equal(t, len(want.encode())-before, cache.current.add(at, seq, value))
			}
			current[name] = want
			requireKept(t, want, &cache.current, at)
		}
	})
}

// The row cache reuses its memory, and it does not keep the memory of occasional large values.
func TestRowCacheIsBounded(t *testing.T) {
	const limit = 1 << 20
	var cache rowCache
	keep := func(name string, n int, value []byte) {
		cache.put([]byte(name), spanFrom(uint64(n)), appendValue(nil, value))
	}
	value := bytes.Repeat([]byte("x"), 200)
	for n := range 100_000 {
		if cache.current.heads == nil || cache.full(limit) {
			cache.rotate(limit)
		}
		if n%3000 == 1 {
			keep(fmt.Sprintf("large %d", n), n, bytes.Repeat(value, 1000))
		}
		keep(fmt.Sprintf("row %d", n), n, value)
		require.LessOrEqual(t, cache.current.used, limit/2+1000*len(value)+1000)
	}
	for range 3 { // fills the cache with small values only
		for n := 0; !cache.full(limit); n++ {
			keep(fmt.Sprintf("row %d", n), n, value)
		}
		cache.rotate(limit)
	}
	for _, g := range []*generation{&cache.current, &cache.previous} {
		held := cap(g.heads)*4 + len(g.entries)*entriesPerPart*entryBytes
		for _, block := range g.blocks {
			held += len(block)
		}
		require.LessOrEqual(t, held, limit)
	}
}

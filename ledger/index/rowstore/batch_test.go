package rowstore

import (
	"slices"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Commit has the same result as applying the batch's writes one after another.
func TestWritesEqualModel(t *testing.T) {
	s := openTestRows(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close(nil)) }()
	rapid.Check(t, func(t *rapid.T) {
		space := KeyspaceFromNumber(1)
		require.NoError(t, s.engine.DeleteRange(space[:], space.UpperBound(), engine.NoSync))
		stored, w := make(map[string]string), &Batch{engine: s.engine}
		once := make(map[string]bool) // keys that are set once and removed by SingleDelete, repeatedly
		for range rapid.IntRange(1, 3).Draw(t, "batches") {
			w.reset(1 << 20)
			undone := make(map[string]bool)
			shared := make([]byte, rapid.SampledFrom([]int{0, 7, 8, 20, longKey}).Draw(t, "shared"))
			for range rapid.SampledFrom([]int{0, 1, 10, fewWrites + 1, 4 * fewWrites}).Draw(t, "writes") {
				length := rapid.IntRange(0, 20).Draw(t, "length")
				text := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), length, length).Draw(t, "key")
				key := slices.Concat(space[:], shared, text)
				value := rapid.StringN(0, 5, -1).Draw(t, "value")
				name := string(key)
				switch kind := rapid.SampledFrom([]writeKind{setKey, setKey, deleteKey, singleDeleteKey}).Draw(t, "kind"); {
				case kind == singleDeleteKey && once[name] && !undone[name]:
					w.add(singleDeleteKey, key, nil)
					delete(stored, name)
					delete(once, name)
					undone[name] = true
				case kind == singleDeleteKey && !undone[name]:
					if _, there := stored[name]; !there {
						w.add(setKey, key, []byte(value))
						stored[name], once[name], undone[name] = value, true, true
					}
				case once[name] || undone[name]:
				case kind == setKey:
					w.add(setKey, key, []byte(value))
					stored[name] = value
				case kind == deleteKey:
					w.add(deleteKey, key, nil)
					delete(stored, name)
				}
			}
			require.NoError(t, w.Commit())
		}
		got := make(map[string]string)
		it, err := s.engine.NewIter(&engine.IterOptions{LowerBound: space[:], UpperBound: space.UpperBound()})
		require.NoError(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			got[string(it.Key())] = string(it.Value())
		}
		require.NoError(t, it.Close())
		require.Equal(t, stored, got)
	})
}

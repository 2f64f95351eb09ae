package index

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage/pebble/pebbletest"
)

// Wherever the power fails in the middle of a fold, cursor and contents agree,
// and folding on from there gives what an undisturbed fold gives.
func TestPowerCutInTheMiddleOfAFold(t *testing.T) {
	bodies := plains(t, 0, 1000)
	log := newJournal(t, "default")
	log.append(bodies...)

	var cuts []*pebbletest.Crashable
	var mu sync.Mutex // guards cuts
	files := pebbletest.NewCrashable()
	files.BeforeEach(func(operation int) {
		cut := files.PowerCut([]int{100, 0, 100, 50, 100}[operation%5], uint64(operation))
		mu.Lock()
		defer mu.Unlock()
		cuts = append(cuts, cut)
	})
	c := testConfig(files.FS())
	c.batchEvents = 2
	s := openTest(t, c)
	growing := newJournal(t, "default") // so that the fold takes its time
	f := follow(t, s, growing)
	for part := range slices.Chunk(bodies, 50) {
		growing.append(part...)
		growing.catchUp(f)
	}
	files.BeforeEach(nil)
	require.NoError(t, s.Close())

	middle := 0
	for _, cut := range cuts {
		c.folder.files = cut.FS()
		s := openTest(t, c)
		f := newFollower(s, log.name, log.store)
		require.NoError(t, f.restore(t.Context()))
		if f.Size() > 0 && f.Size() < log.head.Size {
			middle++
		}
		require.Zero(t, f.Size()%2, "a batch is whole or not there")
		log.check(f)
		requireKeys(t, s, f.Size())

		f = follow(t, s, log)
		log.catchUp(f)
		log.check(f)
		requireKeys(t, s, log.head.Size)
		require.NoError(t, s.Close())
	}
	require.Greater(t, middle, 5, "of %d power cuts", len(cuts))
}

// requireKeys fails unless the index has one key for each event and one cursor.
func requireKeys(t *testing.T, s *Store, events uint64) {
	t.Helper()
	keys := uint64(0)
	all, err := s.engine.NewIter(nil)
	require.NoError(t, err)
	for ok := all.First(); ok; ok = all.Next() {
		keys++
	}
	require.NoError(t, all.Close())
	if events > 0 {
		events++
	}
	require.Equal(t, events, keys)
}

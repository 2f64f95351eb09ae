package indextest

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage/pebble/pebbletest"
)

// After a power failure at any moment of a fold, the stored cursor matches the stored rows, and
// the continued fold produces the same index as an uninterrupted one.
func TestPowerCutInTheMiddleOfAFold(t *testing.T) {
	bodies := append(randomBodies(0, 200), plains(t, 0, 100)...)
	log := newJournal(t, "default")
	log.append(bodies...)

	var cuts []*pebbletest.CrashFS
	var mu sync.Mutex // guards cuts
	files := pebbletest.NewCrashFS()
	files.BeforeEachOperation(func(operation int) {
		if operation%3 > 0 {
			return
		}
		cut := files.AfterPowerCut([]int{100, 0, 100, 50, 100}[operation%5], uint64(operation))
		mu.Lock()
		defer mu.Unlock()
		cuts = append(cuts, cut)
	})
	c := testConfig(files.FS())
	c.MaxBatchEvents = 2
	s := openTest(t, c)
	growing := newJournal(t, "default") // grows in parts, so that the fold writes many times
	f := follow(t, s, growing)
	for part := range slices.Chunk(bodies, 50) {
		growing.append(part...)
		growing.catchUp(f)
		_, err := s.RowStore().DB().AsyncFlush()
		require.NoError(t, err)
	}
	files.BeforeEachOperation(nil)
	require.NoError(t, s.Close())

	middle, whole := 0, log.refold()
	for _, cut := range cuts {
		c.RowStore.FS = cut.FS()
		s := openTest(t, c)
		f, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
		require.NoError(t, err)
		if f.Size() > 0 && f.Size() < log.head.Size {
			middle++
		}
		require.Zero(t, f.Size()%2, "a batch is stored completely or not at all")
		log.check(f)
		requireEvents(t, s, f.Size())

		f.Close()
		f = follow(t, s, log)
		log.catchUp(f)
		log.check(f)
		requireEvents(t, s, log.head.Size)
		requireSame(t, whole, dump(t, s))
		require.NoError(t, s.Close())
	}
	require.Greater(t, middle, 5, "of %d power cuts", len(cuts))
}

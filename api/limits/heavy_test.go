package limits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A cancelled request leaves the queue.
func TestHeavyWorkIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := newHeavyWork(1, time.Hour)
		var first heavySlot
		require.NoError(t, first.Take(t.Context(), &work, true))
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		for _, read := range []bool{true, false} {
			go func() { left <- new(heavySlot).Take(ctx, &work, read) }()
		}
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.ErrorIs(t, <-left, context.Canceled)
		first.Release()
		first.Release()
		require.Empty(t, work.Cores)
		require.Empty(t, work.Reads)
	})
}

// A write waits behind at most as many reads as there are cores.
func TestHeavyWritesPassReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := newHeavyWork(2, time.Hour)
		begun, finish := make(chan string, 100), make(chan struct{})
		worker := func(name string, read bool) {
			var slot heavySlot
			if err := slot.Take(t.Context(), &work, read); err != nil {
				return
			}
			begun <- name
			<-finish
			slot.Release()
		}
		for range cap(work.Cores) {
			work.Cores <- struct{}{}
		}
		for range 20 {
			go worker("read", true)
		}
		synctest.Wait()
		go worker("write", false)
		synctest.Wait()
		for range cap(work.Cores) {
			<-work.Cores
			synctest.Wait()
			require.Equal(t, "read", <-begun)
		}
		finish <- struct{}{}
		synctest.Wait()
		require.Equal(t, "write", <-begun)
		for range 20 { // the others
			finish <- struct{}{}
		}
		synctest.Wait()
		require.Empty(t, work.Cores)
	})
}

package limits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A request that is canceled leaves the queue.
func TestHeavyWorkIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := newHeavyWorkLimiter(1, time.Hour)
		var first heavySlot
		require.NoError(t, first.Take(t.Context(), &work))
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- new(heavySlot).Take(ctx, &work) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		first.Release()
		first.Release()
		require.Empty(t, work.Slots)
	})
}

// A free slot or turn is granted even if the maximum wait is zero.
func TestFreeTokensAreTaken(t *testing.T) {
	work, redactions := newHeavyWorkLimiter(1, 0), newTurns(0)
	for range 100 {
		var slot heavySlot
		require.NoError(t, slot.Take(t.Context(), &work))
		slot.Release()
		done, err := redactions.Take(t.Context(), "default")
		require.NoError(t, err)
		_, err = redactions.Take(t.Context(), "default")
		require.Error(t, err)
		done()
	}
}

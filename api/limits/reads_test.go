package limits

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// caller returns a function that returns the Holder with the given name.
func caller(name string) func() Holder { return func() Holder { return Holder{Name: name} } }

// work takes a turn for a caller, sends the caller's name to begun, and ends the turn when it
// receives from finish.
func work(ctx context.Context, turns *ReadScheduler, name string, begun chan<- string, finish <-chan struct{}) {
	var turn ReadTurn
	if turn.Take(ctx, turns, caller(name)) != nil {
		return
	}
	begun <- name
	<-finish
	turn.Release()
}

// Reads use all cores. While a write is in progress, they leave one core to writes.
func TestReadsLeaveACoreToWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewReadScheduler(3, time.Hour)
		begun, finish := make(chan string, 10), make(chan struct{})
		for range 10 {
			go work(t.Context(), turns, "a", begun, finish)
		}
		synctest.Wait()
		require.Len(t, begun, 3)
		turns.BeginWrite()
		finish <- struct{}{}
		synctest.Wait()
		require.Len(t, begun, 3, "two reads still run")
		finish <- struct{}{}
		synctest.Wait()
		require.Len(t, begun, 4)
		turns.EndWrite()
		time.Sleep(2 * lull)
		require.Len(t, begun, 5, "reads use the core of the writes, too")
		close(finish)
		synctest.Wait()
		require.Zero(t, turns.RunningTurns())
	})
}

// With n > 1 writes in progress, no turn begins for n-1 times the previous turn's duration. The
// factor is limited to mostRest.
func TestReadsRestBesideWrites(t *testing.T) {
	for writes, rest := range map[int]time.Duration{0: 0, 1: 0, 2: 10 * time.Millisecond, 3: 20 * time.Millisecond, 100: mostRest * 10 * time.Millisecond} {
		t.Run(strconv.Itoa(writes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := NewReadScheduler(2, time.Hour)
				for range writes {
					turns.BeginWrite()
				}
				var first, second ReadTurn
				require.NoError(t, first.Take(t.Context(), turns, caller("a")))
				time.Sleep(10 * time.Millisecond)
				first.Release()
				begin := time.Now()
				require.NoError(t, second.Take(t.Context(), turns, caller("a")))
				require.Equal(t, rest, time.Since(begin))
				second.Release()
				require.Zero(t, turns.RunningTurns())
			})
		})
	}
}

// A caller with one request waits for at most one turn of each other caller.
func TestTurnsRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewReadScheduler(1, time.Hour)
		begun, finish := make(chan string, 100), make(chan struct{})
		for range 20 {
			go work(t.Context(), turns, "many", begun, finish)
		}
		synctest.Wait()
		go work(t.Context(), turns, "one", begun, finish)
		synctest.Wait()
		require.Equal(t, "many", <-begun)
		finish <- struct{}{}
		require.Equal(t, "many", <-begun)
		finish <- struct{}{}
		require.Equal(t, "one", <-begun)
		close(finish)
		synctest.Wait()
		require.Len(t, begun, 18)
		require.Zero(t, turns.RunningTurns())
	})
}

// Work that calls Yield lets another caller compute once its own turn has lasted longestTurn.
func TestLongTurnsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewReadScheduler(1, time.Hour)
		var turn ReadTurn
		require.NoError(t, turn.Yield(t.Context(), caller("long")))
		require.Zero(t, turns.RunningTurns(), "Yield takes no turn if none is held")
		require.NoError(t, turn.Take(t.Context(), turns, caller("long")))
		begun, finish := make(chan string, 10), make(chan struct{})
		go work(t.Context(), turns, "other", begun, finish)
		synctest.Wait()
		require.NoError(t, turn.Yield(t.Context(), caller("long")))
		synctest.Wait()
		require.Empty(t, begun, "the turn has not lasted long enough")
		time.Sleep(longestTurn)
		go func() { finish <- struct{}{} }()
		require.NoError(t, turn.Yield(t.Context(), caller("long")))
		require.Equal(t, "other", <-begun)
		require.Equal(t, 1, turns.RunningTurns())
		time.Sleep(longestTurn)
		go work(t.Context(), turns, "other", begun, finish)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, turn.Yield(ctx, caller("long")), context.Canceled)
		finish <- struct{}{}
		synctest.Wait()
		require.Zero(t, turns.RunningTurns())
	})
}

// A request that has given up no longer delays the next one.
func TestReadTurnTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewReadScheduler(1, time.Second)
		var first, second, third ReadTurn
		require.NoError(t, first.Take(t.Context(), turns, caller("a")))
		var refused *RejectedError
		require.ErrorAs(t, second.TakeOrRefuse(t.Context(), turns, caller("b")), &refused)
		require.Equal(t, ReasonHeavyWork, refused.Reason)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second.TakeOrRefuse(ctx, turns, caller("b")), context.Canceled)
		first.Release()
		first.Release()
		require.NoError(t, third.TakeOrRefuse(t.Context(), turns, caller("c")))
		third.Release()
		require.Zero(t, turns.RunningTurns())
	})
}

// All requests end and all turns are returned, in whatever order requests arrive and give up.
func TestNoTurnIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewReadScheduler(2, 50*time.Millisecond)
		for i := range 500 {
			go func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				for range 20 {
					time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
					if r.IntN(4) == 0 {
						turns.BeginWrite()
						time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
						turns.EndWrite()
						continue
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(60))*time.Millisecond)
					var turn ReadTurn
					if turn.TakeOrRefuse(ctx, turns, caller(strconv.Itoa(i%7))) == nil {
						time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
						turn.Release()
					}
					cancel()
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, turns.RunningTurns())
		require.Zero(t, turns.writes.Load())
		require.Empty(t, turns.waiting)
		require.Empty(t, turns.callers)
	})
}

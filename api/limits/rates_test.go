package limits

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLinesWaitUntilTheClientIsGone(t *testing.T) {
	r := newRates(ServerLimits{RequestRate: 1e-9}.WithDefaults())
	ctx, cancel := context.WithCancel(t.Context())
	passed := 0
	require.ErrorIs(t, r.WaitForLines(ctx, "somebody", 3, func() { passed++; cancel() }), context.Canceled)
	require.Equal(t, 1, passed)
	require.Equal(t, 1, r.LinesPerWait(128))
	require.Equal(t, 128, newRates(ServerLimits{}.WithDefaults()).LinesPerWait(128))
	require.NoError(t, newRates(ServerLimits{}.WithDefaults()).WaitForLines(ctx, "somebody", 1e9, func() { passed++ }))
	require.Equal(t, 1, passed)
}

// After ChargeLines, CheckLineDebt refuses further lines of an identity until the identity has
// tokens again. Without a rate limit, CheckLineDebt refuses nothing.
func TestLineDebt(t *testing.T) {
	r := newRates(ServerLimits{RequestRate: 1e-6, BurstDuration: 1e7 * time.Second}.WithDefaults())
	require.NoError(t, r.CheckLineDebt("somebody"))
	r.ChargeLines("somebody", 50)
	var refused *RejectedError
	require.ErrorAs(t, r.CheckLineDebt("somebody"), &refused)
	require.Equal(t, ReasonRate, refused.Reason)
	require.Positive(t, refused.RetryAfter)
	require.NoError(t, r.CheckLineDebt("another"))
	free := newRates(ServerLimits{}.WithDefaults())
	free.ChargeLines("somebody", 1e9)
	require.NoError(t, free.CheckLineDebt("somebody"))
}

// The size of a RecentMap is bounded, and recently used keys are kept.
func TestRecentMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		g := NewRecentMap[int, int](limit)
		lately := []int{} // the most recently used keys, without repetition
		for i, key := range rapid.SliceOf(rapid.IntRange(0, 60)).Draw(t, "keys") {
			made := false
			g.GetOrAdd(key, func() int { made = true; return i })
			at := len(lately)
			for j, k := range lately {
				if k == key {
					at = j
				}
			}
			if at < len(lately) {
				require.False(t, made && len(lately)-at <= limit, "%d was used recently", key)
				lately = append(lately[:at], lately[at+1:]...)
			} else {
				require.True(t, made)
			}
			lately = append(lately, key)
			require.LessOrEqual(t, len(g.CurrentEntries)+len(g.previous), 2*limit)
		}
	})
}

// If an address sends too many bad requests, the answers to its further bad requests are delayed by
// at most MaxBadRequestDelay.
func TestBadRequestsAreHeld(t *testing.T) {
	load := ServerLimits{BadRequestRate: 2, BurstDuration: 2 * time.Second}.WithDefaults()
	r := newRates(load)
	one, two := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	now := time.Now()
	for range 4 { // a burst of 4 is not delayed
		require.Zero(t, r.holdBad(one, false, now))
	}
	require.Equal(t, time.Second/2, r.holdBad(one, false, now))
	require.Equal(t, time.Second, r.holdBad(one, false, now))
	for range 100 {
		require.Equal(t, load.MaxBadRequestDelay, r.holdBad(one, false, now))
	}
	require.Zero(t, r.holdBad(two, false, now))
	require.Equal(t, time.Second/2, r.holdBad(one, false, now.Add(time.Second)), "requests that were held for BadHold took no token")
	later := now.Add(time.Minute)
	require.Zero(t, r.holdBad(one, true, later), "a write takes the whole burst of four")
	require.Equal(t, time.Second/2, r.holdBad(one, false, later))
}

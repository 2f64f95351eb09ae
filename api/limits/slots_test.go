package limits

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A holder gets at most half of the free slots, and a released slot can be taken again.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		s := newSlots(limit)
		held := make(map[string]int)
		taken := 0
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			who := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")
			if held[who] > 0 && rapid.Bool().Draw(t, "give") {
				s.Release(who)
				held[who]--
				taken--
			} else {
				want := taken < limit
				take := s.take
				if rapid.Bool().Draw(t, "fairly") {
					want = want && held[who] < limit-taken
					take = s.TakeShare
				}
				require.Equal(t, want, take(who))
				if want {
					held[who]++
					taken++
				}
			}
			require.Equal(t, taken, s.InUse())
			for who, n := range held {
				require.Equal(t, n, s.held[who])
			}
		}
	})
	s := newSlots(2048)
	hog := 0
	for s.TakeShare("hog") {
		hog++
	}
	require.Equal(t, 1024, hog)
	require.True(t, s.TakeShare("another"))
}

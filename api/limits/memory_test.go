package limits

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record/pyjson"
)

// budget returns a MemoryBudget of limit bytes.
func budget(limit int64, wait time.Duration) *MemoryBudget {
	return NewMemoryBudget(limit, wait, ReasonBodyMemory, "bodies")
}

// MemoryBound counts BodyMemoryFactor for each byte of a text, and estimates the number of values from
// the punctuation. A JSON text has at most one more value than it has punctuation characters.
func TestMemoryBound(t *testing.T) {
	require.EqualValues(t, 5*BodyMemoryFactor, MemoryBound([]byte(`"abc"`)))
	for _, text := range []string{`[1,2,3]`, `{"a":{"b":[{},[],[[]]]}}`, `[[1,"x"],{"k":null,"l":[true,false]}]`, `1`, `"x"`} {
		values := strings.Count(text, ",") + strings.Count(text, ":") + strings.Count(text, "[") + strings.Count(text, "{") + 1
		require.NoError(t, new(pyjson.Document).ParseLimited([]byte(text), values), "%s must not have more values than punctuation characters, plus one", text)
	}
}

func TestShares(t *testing.T) {
	m := budget(100, time.Hour)
	a, b := MemoryShare{Budget: m, Holder: Holder{Name: "a"}}, MemoryShare{Budget: m, Holder: Holder{Name: "b"}}
	require.NoError(t, a.Take(t.Context(), 50))
	a.ShrinkTo(70) // no effect, because the share holds only 50 bytes
	require.EqualValues(t, 50, m.BytesInUse())
	a.ShrinkTo(40)
	require.NoError(t, b.Take(t.Context(), 30))
	require.EqualValues(t, 70, m.BytesInUse())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.Take(ctx, 10), context.Canceled, "a caller that has disconnected must not get memory")
	a.Release()
	b.Release()
	a.Release()
	require.Zero(t, m.BytesInUse())
	require.NoError(t, a.Take(t.Context(), 1000), "a request for more than half gets half")
	require.NoError(t, a.Take(t.Context(), 1000), "a share that grows beyond half gets half")
	require.EqualValues(t, 50, m.BytesInUse())
	a.Release()
	require.Empty(t, m.holders)
	new(MemoryShare).Release()
}

// A caller gets at most half of the memory that is left. Another caller then gets memory at once,
// and a caller that is waiting does not delay the others.
func TestCallersShareMemory(t *testing.T) {
	const size = 10
	m := budget(100, time.Hour)
	hog, other := Holder{Name: "hog"}, Holder{Name: "other"}
	var held []*MemoryShare
	for range 5 {
		s := &MemoryShare{Budget: m, Holder: hog}
		require.NoError(t, s.Take(t.Context(), size))
		held = append(held, s)
	}
	waiting := &MemoryShare{Budget: m, Holder: hog}
	granted := make(chan error)
	go func() { granted <- waiting.Take(t.Context(), size) }()
	require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.waiting) == 1 }, time.Minute, time.Millisecond)
	one, two := &MemoryShare{Budget: m, Holder: other}, &MemoryShare{Budget: m, Holder: other}
	require.NoError(t, one.Take(t.Context(), 2*size), "the budget has room, although another share waits")
	require.NoError(t, two.Take(t.Context(), size/2))
	one.Release()
	two.Release()
	for _, s := range held[:1] {
		s.Release()
	}
	require.NoError(t, <-granted)
	waiting.Release()
	for _, s := range held {
		s.Release()
	}
	require.Zero(t, m.BytesInUse())
	require.Empty(t, m.holders)
}

// leaving returns the context of a request whose client has already disconnected.
func leaving() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// awaitWaiting waits until n shares of m are waiting.
func awaitWaiting(t *testing.T, m *MemoryBudget, n int) {
	t.Helper()
	require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.waiting) == n }, time.Minute, time.Millisecond)
}

// Small shares do not starve a large one, and a large one does not starve small ones.
func TestLargeSharesAreNotStarved(t *testing.T) {
	const size = 10
	m := budget(100, time.Hour)
	callers := 0
	next := func() *MemoryShare {
		callers++
		return &MemoryShare{Budget: m, Holder: Holder{Name: fmt.Sprint(callers)}}
	}
	var held []*MemoryShare
	for range 10 {
		held = append(held, next())
		require.NoError(t, held[len(held)-1].Take(t.Context(), size))
	}
	large := &MemoryShare{Budget: m, Holder: Holder{Name: "large"}}
	granted := make(chan error, 1)
	go func() { granted <- large.Take(t.Context(), 50) }()
	awaitWaiting(t, m, 1)
	taken := 0
	for i := 0; i < 100 && len(granted) == 0 && len(held) > 0; i++ {
		held[0].Release()
		held = held[1:]
		if m.mu.Lock(); len(m.waiting) == 0 {
			m.mu.Unlock()
			break
		}
		m.mu.Unlock()
		if small := next(); small.Take(leaving(), size) == nil {
			held = append(held, small)
			taken++
		}
	}
	awaitWaiting(t, m, 0)
	require.NoError(t, <-granted)
	require.Positive(t, taken, "no small share came in while the large one waited")
	require.NotEmpty(t, held, "the large share got its bytes only when no other share held any")
	large.Release()
	for _, s := range held {
		s.Release()
	}
	require.Zero(t, m.claimed)
	require.Empty(t, m.holders)
}

// A claim reserves memory for a waiting share. It does not delay a share that already holds memory,
// and it ends when the claimant stops waiting.
func TestClaimsOnMemory(t *testing.T) {
	m := budget(100, time.Hour)
	one, two := &MemoryShare{Budget: m, Holder: Holder{Name: "one"}}, &MemoryShare{Budget: m, Holder: Holder{Name: "two"}}
	require.NoError(t, one.Take(t.Context(), 40))
	require.NoError(t, two.Take(t.Context(), 30))
	ctx, cancel := context.WithCancel(t.Context())
	large := &MemoryShare{Budget: m, Holder: Holder{Name: "large"}}
	left := make(chan error)
	go func() { left <- large.Take(ctx, 50) }()
	awaitWaiting(t, m, 1)
	small := &MemoryShare{Budget: m, Holder: Holder{Name: "small"}}
	require.ErrorIs(t, small.Take(leaving(), 20), context.Canceled, "half of what is free is claimed")
	waits := make(chan error)
	go func() { waits <- small.Take(t.Context(), 20) }()
	awaitWaiting(t, m, 2)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	require.NoError(t, <-waits, "the claimed bytes are free again")
	small.Release()
	go func() { left <- large.Take(t.Context(), 50) }()
	awaitWaiting(t, m, 1)
	require.NoError(t, (&MemoryShare{Budget: m, Holder: Holder{Name: "other"}}).Take(t.Context(), 15))
	require.NoError(t, two.Take(leaving(), 0))
	two.ShrinkTo(1)
	require.NoError(t, two.Take(leaving(), 15), "a claim does not delay a share that holds memory")
	one.Release()
	two.Release()
	require.NoError(t, <-left)
}

// The shares never hold more than the limit, a caller never gets more than half of what was
// left, and every byte is accounted for.
func TestMemoryBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 100
		m := budget(limit, 0)
		var shares []*MemoryShare
		for range 8 {
			shares = append(shares, &MemoryShare{Budget: m, Holder: Holder{Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")}})
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			s := rapid.SampledFrom(shares).Draw(t, "share")
			n := rapid.Int64Range(0, 2*limit).Draw(t, "bytes")
			left, held := limit-m.BytesInUse(), s.Bytes
			if rapid.Bool().Draw(t, "give") {
				s.ShrinkTo(n)
			} else {
				_ = s.Take(context.Background(), n) // Take may fail
			}
			if got := s.Bytes - held; got > 0 {
				require.LessOrEqual(t, m.holders[s.Holder].bytes, left)
			}
			total, perHolder, several := int64(0), make(map[Holder]int64), make(map[Holder]int)
			for _, s := range shares {
				total += s.Bytes
				perHolder[s.Holder] += s.Bytes
				if s.Bytes > 0 {
					several[s.Holder]++
				}
			}
			require.Equal(t, total, m.BytesInUse())
			require.LessOrEqual(t, total, int64(limit))
			require.Empty(t, m.waiting)
			for who, n := range several {
				require.Equal(t, perHolder[who], m.holders[who].bytes)
				require.Equal(t, n, m.holders[who].shares)
			}
			require.Len(t, m.holders, len(several))
		}
	})
}

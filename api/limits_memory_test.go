package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record/pyjson"
)

// small is a server with little memory for bodies that nobody waits for.
func small(bytes int64) func(*Config) {
	return func(c *Config) { c.Load.BodyMemory, c.Load.Wait = bytes, time.Millisecond }
}

// underWay waits until bodies of at least so many bytes are being read.
func (s *service) underWay(bytes int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.server().limits.writing.inUse() >= bytes }, patience, time.Millisecond)
}

// Bodies that are under way share a bounded memory; whoever finds none is told to
// come again, and holds up nobody.
func TestMemoryOfBodiesIsBounded(t *testing.T) {
	s := start(t, small(150_000))
	body := ipcBody("", strings.Repeat("x", 15_000))
	slow := s.dial()
	slow.say("POST {ledger}/ipc-records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:14_000])
	s.underWay(14_000)

	refused := s.post("/ipc-records", body)
	require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "no memory left for bodies")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	lines := s.batch(ipcLine("a", "1") + ipcLine("b", strings.Repeat("x", 15_000)) + ipcLine("c", "2")).parsed()
	require.Equal(t, []int{0, http.StatusServiceUnavailable, 0}, []int{lines[0].Status, lines[1].Status, lines[2].Status})
	require.EqualValues(t, 2, s.refusals(refusedMemory))

	slow.say("%s", body[14_000:])
	slow.hear().want(http.StatusCreated)
	s.post("/ipc-records", body).want(http.StatusCreated)
	require.Eventually(t, func() bool { return s.server().limits.writing.inUse() == 0 }, patience, time.Millisecond)
}

// Many small values take more memory than their bytes, and are counted so.
func TestWeight(t *testing.T) {
	require.EqualValues(t, 5*bodyCopies, weight([]byte(`"abc"`)))
	for _, text := range []string{`[1,2,3]`, `{"a":{"b":[{},[],[[]]]}}`, `[[1,"x"],{"k":null,"l":[true,false]}]`, `1`, `"x"`} {
		values := strings.Count(text, ",") + strings.Count(text, ":") + strings.Count(text, "[") + strings.Count(text, "{") + 1
		require.NoError(t, new(pyjson.Document).ParseWithin([]byte(text), values), "%s has no more values than signs", text)
	}
	s := start(t, small(200_000))
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", 10_000))).want(http.StatusCreated)
	wide := `{"payload":{"list":[` + strings.Repeat("1,", 5_000) + `1]},"output":"x","model":"m","temperature":0,"max_tokens":9}`
	for i, n := range []int64{100_000, 50_000} {
		other := share{budget: s.server().limits.writing, who: holder{name: string(rune('a' + i))}}
		require.NoError(t, other.take(t.Context(), n))
		defer other.release()
	}
	s.post("/ipc-records", ipcBody("", strings.Repeat("y", 5_000))).want(http.StatusCreated)
	s.post("/ipc-records", wide).problem(http.StatusServiceUnavailable)
	require.EqualValues(t, 1, s.refusals(refusedMemory))
}

// budget returns a budget of that many bytes.
func budget(limit int64, wait time.Duration) *memoryBudget {
	return newMemoryBudget(limit, wait, refusedMemory, "bodies")
}

func TestShares(t *testing.T) {
	m := budget(100, time.Hour)
	a, b := share{budget: m, who: holder{name: "a"}}, share{budget: m, who: holder{name: "b"}}
	require.NoError(t, a.take(t.Context(), 50))
	a.shrink(70) // holds less
	require.EqualValues(t, 50, m.inUse())
	a.shrink(40)
	require.NoError(t, b.take(t.Context(), 30))
	require.EqualValues(t, 70, m.inUse())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.take(ctx, 10), context.Canceled, "who is gone was not refused")
	a.release()
	b.release()
	a.release()
	require.Zero(t, m.inUse())
	require.NoError(t, a.take(t.Context(), 1000), "what is larger than half gets half")
	require.NoError(t, a.take(t.Context(), 1000), "and so does what grows beyond half")
	require.EqualValues(t, 50, m.inUse())
	a.release()
	require.Empty(t, m.holders)
	new(share).release()
}

// A caller gets no more than is left for all others; another caller finds room at once, and one that waits delays no other.
func TestCallersShareMemory(t *testing.T) {
	const size = 10
	m := budget(100, time.Hour)
	hog, other := holder{name: "hog"}, holder{name: "other"}
	var held []*share
	for range 5 {
		s := &share{budget: m, who: hog}
		require.NoError(t, s.take(t.Context(), size))
		held = append(held, s)
	}
	waiting := &share{budget: m, who: hog}
	granted := make(chan error)
	go func() { granted <- waiting.take(t.Context(), size) }()
	require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.waiting) == 1 }, patience, time.Millisecond)
	one, two := &share{budget: m, who: other}, &share{budget: m, who: other}
	require.NoError(t, one.take(t.Context(), 2*size), "the budget has room, whoever waits")
	require.NoError(t, two.take(t.Context(), size/2))
	one.release()
	two.release()
	for _, s := range held[:1] {
		s.release()
	}
	require.NoError(t, <-granted)
	waiting.release()
	for _, s := range held {
		s.release()
	}
	require.Zero(t, m.inUse())
	require.Empty(t, m.holders)
}

// leaving is the context of a request whose client does not wait.
func leaving() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// awaitWaiting waits until that many shares wait.
func awaitWaiting(t *testing.T, m *memoryBudget, n int) {
	t.Helper()
	require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.waiting) == n }, patience, time.Millisecond)
}

// Small shares do not keep a large one waiting for ever, nor does it keep them all waiting.
func TestLargeSharesAreNotStarved(t *testing.T) {
	const size = 10
	m := budget(100, time.Hour)
	callers := 0
	next := func() *share {
		callers++
		return &share{budget: m, who: holder{name: fmt.Sprint(callers)}}
	}
	var held []*share
	for range 10 {
		held = append(held, next())
		require.NoError(t, held[len(held)-1].take(t.Context(), size))
	}
	large := &share{budget: m, who: holder{name: "large"}}
	granted := make(chan error, 1)
	go func() { granted <- large.take(t.Context(), 50) }()
	awaitWaiting(t, m, 1)
	taken := 0
	for i := 0; i < 100 && len(granted) == 0 && len(held) > 0; i++ {
		held[0].release()
		held = held[1:]
		if m.mu.Lock(); len(m.waiting) == 0 {
			m.mu.Unlock()
			break
		}
		m.mu.Unlock()
		if small := next(); small.take(leaving(), size) == nil {
			held = append(held, small)
			taken++
		}
	}
	awaitWaiting(t, m, 0)
	require.NoError(t, <-granted)
	require.Positive(t, taken, "no small share came in while the large one waited")
	require.NotEmpty(t, held, "the large one got its bytes only when nobody else had any")
	large.release()
	for _, s := range held {
		s.release()
	}
	require.Zero(t, m.claimed)
	require.Empty(t, m.holders)
}

// A share that has begun goes on whatever others wait for, and a claim ends with the one who
// waits.
func TestClaimsOnMemory(t *testing.T) {
	m := budget(100, time.Hour)
	one, two := &share{budget: m, who: holder{name: "one"}}, &share{budget: m, who: holder{name: "two"}}
	require.NoError(t, one.take(t.Context(), 40))
	require.NoError(t, two.take(t.Context(), 30))
	ctx, cancel := context.WithCancel(t.Context())
	large := &share{budget: m, who: holder{name: "large"}}
	left := make(chan error)
	go func() { left <- large.take(ctx, 50) }()
	awaitWaiting(t, m, 1)
	small := &share{budget: m, who: holder{name: "small"}}
	require.ErrorIs(t, small.take(leaving(), 20), context.Canceled, "half of what is free is claimed")
	waits := make(chan error)
	go func() { waits <- small.take(t.Context(), 20) }()
	awaitWaiting(t, m, 2)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	require.NoError(t, <-waits, "what was claimed is free")
	small.release()
	go func() { left <- large.take(t.Context(), 50) }()
	awaitWaiting(t, m, 1)
	require.NoError(t, (&share{budget: m, who: holder{name: "other"}}).take(t.Context(), 15))
	require.NoError(t, two.take(leaving(), 0))
	two.shrink(1)
	require.NoError(t, two.take(leaving(), 15), "a share that holds something is not held up by a claim")
	one.release()
	two.release()
	require.NoError(t, <-left)
}

// Whatever callers take and give back, no more is held than there is, what a caller is
// given is no more than was left, and nothing is lost.
func TestMemoryBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 100
		m := budget(limit, 0)
		var shares []*share
		for range 8 {
			shares = append(shares, &share{budget: m, who: holder{name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")}})
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			s := rapid.SampledFrom(shares).Draw(t, "share")
			n := rapid.Int64Range(0, 2*limit).Draw(t, "bytes")
			left, held := limit-m.inUse(), s.held
			if rapid.Bool().Draw(t, "give") {
				s.shrink(n)
			} else {
				_ = s.take(context.Background(), n) // refused or not
			}
			if got := s.held - held; got > 0 {
				require.LessOrEqual(t, m.holders[s.who].bytes, left)
			}
			total, of, several := int64(0), make(map[holder]int64), make(map[holder]int)
			for _, s := range shares {
				total += s.held
				of[s.who] += s.held
				if s.held > 0 {
					several[s.who]++
				}
			}
			require.Equal(t, total, m.inUse())
			require.LessOrEqual(t, total, int64(limit))
			require.Empty(t, m.waiting)
			for who, n := range several {
				require.Equal(t, of[who], m.holders[who].bytes)
				require.Equal(t, n, m.holders[who].shares)
			}
			require.Len(t, m.holders, len(several))
		}
	})
}

// Answers that clients do not read are held in memory too.
func TestMemoryOfAnswersIsBounded(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Wait, c.MaxBody, c.MaxLine = time.Millisecond, 12<<20, 12<<20 })
	const size = 11 << 20 // more than the sockets hold
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", size))).want(http.StatusCreated)
	s.server().limits.reading = newMemoryBudget(36<<20, time.Millisecond, refusedAnswers, "answers")
	slow := s.dial()
	slow.say("GET {ledger}/records/1/content/output HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Eventually(t, func() bool { return s.server().limits.reading.inUse() == size }, patience, time.Millisecond)
	s.get("/records/1/content/output").problem(http.StatusServiceUnavailable)
	s.get("/records?events=true").problem(http.StatusServiceUnavailable)
	require.EqualValues(t, 2, s.refusals(refusedAnswers))
	s.post("/ipc-records", ipcBody("", strings.Repeat("y", size))).want(http.StatusCreated)
	require.Len(t, slow.hear().want(http.StatusOK).body, size)
	s.get("/records?events=true").want(http.StatusOK)
	s.get("/records/1/content/output").want(http.StatusOK)
	require.NoError(t, slow.Close())
	s.quiet()
}

// fillReading takes all memory for answers, by two holders, until the returned function is called.
func (s *service) fillReading() (release func()) {
	s.t.Helper()
	reading := s.server().limits.reading
	var shares []*share
	for i := range 64 {
		one := &share{budget: reading, who: holder{name: string(rune('A' + i))}}
		left := reading.limit - reading.inUse()
		if left == 0 {
			break
		}
		require.NoError(s.t, one.take(s.t.Context(), max(left/2, 1)))
		shares = append(shares, one)
	}
	require.Equal(s.t, reading.limit, reading.inUse())
	return func() {
		for _, one := range shares {
			one.release()
		}
	}
}

// A write that is committed is answered so, whatever memory answers hold. Questions wait and
// are refused.
func TestCommittedWritesAreAnswered(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Wait = time.Millisecond })
	var citations strings.Builder
	for i := range 200 {
		fmt.Fprintf(&citations, `{"source_id":"s%d","text":"chunk %d","weight":1},`, i, i)
	}
	set := `{"run_id":"%s","subject":"s","citations":[` + strings.TrimSuffix(citations.String(), ",") + `]}`
	s.post("/citation-sets", fmt.Sprintf(set, "before")).want(http.StatusCreated)
	s.post("/ipc-records", ipcBody("a", "x")).want(http.StatusCreated)
	release := s.fillReading()
	defer release()
	large := s.post("/citation-sets", fmt.Sprintf(set, "after")).want(http.StatusCreated)
	require.Greater(t, len(large.body), smallAnswer)
	s.post("/citation-sets", fmt.Sprintf(set, "after")).want(http.StatusOK) // replayed
	s.post("/citation-sets", strings.Replace(fmt.Sprintf(set, "after"), "chunk 1", "other", 1)).want(http.StatusConflict)
	s.post("/ipc-records", ipcBody("b", strings.Repeat("x", 20_000))).want(http.StatusCreated)
	s.post("/records/2/state", `{"state":"stale","reason":"r"}`).want(http.StatusCreated)
	s.post("/keys", `{"step":"rotate"}`).want(http.StatusCreated)
	s.do(http.MethodDelete, "/records/2/content", `{"reason":"r"}`, "Content-Type", "application/json").want(http.StatusCreated)
	s.get("/records/1").problem(http.StatusServiceUnavailable)
}

// What refuses a request holds no memory afterwards, whatever buffer it was written in.
func TestRefusalsHoldNoMemory(t *testing.T) {
	s := start(t)
	for range 8 { // large buffers for those to come
		s.get("/log/checkpoint?" + strings.Repeat("%01", 4000) + "=1").want(http.StatusBadRequest)
	}
	for range 200 {
		s.post("/ipc-records", "{}", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site").want(http.StatusForbidden)
		s.get("/records", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site")
	}
	require.Eventually(t, func() bool { return s.server().limits.reading.inUse() == 0 }, patience, time.Millisecond)
	release := s.fillReading()
	defer release()
	s.post("/runs/x", "{}").want(http.StatusMethodNotAllowed) // small: not counted
}

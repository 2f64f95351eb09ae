package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
	"colophon/internal/size"
)

// small returns a change to the configuration that limits the memory for bodies to the given number
// of bytes. Requests do not wait for memory to become free.
func small(bytes int64) func(*Config) {
	return func(c *Config) {
		c.ServerLimits.MaxBodyMemory, c.ServerLimits.MaxWait = size.Bytes(bytes), time.Millisecond
	}
}

// underWay waits until writes in progress together hold at least the given number of bytes of
// memory for their bodies.
func (s *service) underWay(bytes int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.server().shared.Limiter.WriteMemory.BytesInUse() >= bytes }, patience, time.Millisecond)
}

// The memory for bodies in progress is limited. If too little memory is free, a request is refused with a
// Retry-After header, and does not delay other requests.
func TestMemoryOfBodiesIsBounded(t *testing.T) {
	s := start(t, small(150_000))
	body := ipcBody("", strings.Repeat("x", 15_000))
	slow := s.dial()
	slow.say("POST {ledger}/ipc-records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:14_000])
	s.underWay(limits.BodyMemoryFactor * 14_000)

	refused := s.post("/ipc-records", body)
	require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "too much memory for bodies is in use")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	lines := s.batch(ipcLine("a", "1") + ipcLine("b", strings.Repeat("x", 15_000)) + ipcLine("c", "2")).parsed()
	require.Equal(t, []int{0, http.StatusServiceUnavailable, 0}, []int{lines[0].Status, lines[1].Status, lines[2].Status})
	require.EqualValues(t, 2, s.refusals(limits.ReasonBodyMemory))

	slow.say("%s", body[14_000:])
	slow.hear().want(http.StatusCreated)
	s.post("/ipc-records", body).want(http.StatusCreated)
	require.Eventually(t, func() bool { return s.server().shared.Limiter.WriteMemory.BytesInUse() == 0 }, patience, time.Millisecond)
}

// A body with many values reserves more memory than its length in bytes.
func TestManyValuesTakeMemory(t *testing.T) {
	s := start(t, small(200_000))
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", 10_000))).want(http.StatusCreated)
	wide := `{"payload":{"list":[` + strings.Repeat("1,", 5_000) + `1]},"output":"x","model":"m","temperature":0,"max_tokens":9}`
	for i, n := range []int64{100_000, 50_000} {
		other := limits.MemoryShare{Budget: s.server().shared.Limiter.WriteMemory, Holder: limits.Holder{Name: string(rune('a' + i))}}
		require.NoError(t, other.Take(t.Context(), n))
		defer other.Release()
	}
	s.post("/ipc-records", ipcBody("", strings.Repeat("y", 5_000))).want(http.StatusCreated)
	s.post("/ipc-records", wide).problem(http.StatusServiceUnavailable)
	require.EqualValues(t, 1, s.refusals(limits.ReasonBodyMemory))
}

// Responses that clients have not read yet are charged to a separate memory budget, so that writes
// are still accepted.
func TestMemoryOfAnswersIsBounded(t *testing.T) {
	s := start(t, func(c *Config) {
		c.ServerLimits.MaxWait, c.MaxBodySize, c.MaxLineSize = time.Millisecond, 12<<20, 12<<20
	})
	const size = 11 << 20 // too large for the socket buffers
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", size))).want(http.StatusCreated)
	s.server().shared.Limiter.ReadMemory = limits.NewMemoryBudget(36<<20, time.Millisecond, limits.ReasonAnswerMemory, "answers")
	slow := s.dial()
	slow.say("GET {ledger}/records/1/content/output HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Eventually(t, func() bool { return s.server().shared.Limiter.ReadMemory.BytesInUse() == size }, patience, time.Millisecond)
	s.get("/records/1/content/output").problem(http.StatusServiceUnavailable)
	s.get("/records?events=true").problem(http.StatusServiceUnavailable)
	require.EqualValues(t, 2, s.refusals(limits.ReasonAnswerMemory))
	s.post("/ipc-records", ipcBody("", strings.Repeat("y", size))).want(http.StatusCreated)
	require.Len(t, slow.hear().want(http.StatusOK).body, size)
	s.get("/records?events=true").want(http.StatusOK)
	s.get("/records/1/content/output").want(http.StatusOK)
	require.NoError(t, slow.Close())
	s.quiet()
}

// fillReading uses up all the memory for responses, on behalf of several holders, until the
// returned function is called.
func (s *service) fillReading() (release func()) {
	s.t.Helper()
	reading := s.server().shared.Limiter.ReadMemory
	var shares []*limits.MemoryShare
	for i := range 64 {
		one := &limits.MemoryShare{Budget: reading, Holder: limits.Holder{Name: string(rune('A' + i))}}
		left := reading.MaxBytes - reading.BytesInUse()
		if left == 0 {
			break
		}
		require.NoError(s.t, one.Take(s.t.Context(), max(left/2, 1)))
		shares = append(shares, one)
	}
	require.Equal(s.t, reading.MaxBytes, reading.BytesInUse())
	return func() {
		for _, one := range shares {
			one.Release()
		}
	}
}

// A committed write gets its receipt, no matter how much memory other responses hold. Queries wait,
// and are then refused.
func TestCommittedWritesAreAnswered(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxWait = time.Millisecond })
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
	require.Greater(t, len(large.body), 8<<10)
	s.post("/citation-sets", fmt.Sprintf(set, "after")).want(http.StatusOK) // replayed
	s.post("/citation-sets", strings.Replace(fmt.Sprintf(set, "after"), "chunk 1", "other", 1)).want(http.StatusConflict)
	s.post("/ipc-records", ipcBody("b", strings.Repeat("x", 20_000))).want(http.StatusCreated)
	s.post("/records/2/state", `{"state":"stale","reason":"r"}`).want(http.StatusCreated)
	s.post("/keys", `{"step":"rotate"}`).want(http.StatusCreated)
	s.do(http.MethodDelete, "/records/2/content", `{"reason":"r"}`, "Content-Type", "application/json").want(http.StatusCreated)
	s.get("/records/1").problem(http.StatusServiceUnavailable)
}

// A refusal that has been sent holds no memory, even if it was written to a large pooled buffer.
func TestRefusalsHoldNoMemory(t *testing.T) {
	s := start(t)
	for range 8 { // fills the pool with large buffers for later requests
		s.get("/log/checkpoint?" + strings.Repeat("%01", 4000) + "=1").want(http.StatusBadRequest)
	}
	for range 200 {
		s.post("/ipc-records", "{}", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site").want(http.StatusForbidden)
		s.get("/records", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site")
	}
	require.Eventually(t, func() bool { return s.server().shared.Limiter.ReadMemory.BytesInUse() == 0 }, patience, time.Millisecond)
	release := s.fillReading()
	defer release()
	s.post("/runs/x", "{}").want(http.StatusMethodNotAllowed) // a response this small reserves no memory
}

package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"
)

// small is a server with little memory for bodies that nobody waits for.
func small(bytes int64) func(*Config) {
	return func(c *Config) { c.Load.BodyMemory, c.Load.Wait = bytes, time.Millisecond }
}

// underWay waits until bodies of at least so many bytes are being read.
func (s *service) underWay(bytes int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.server().limits.memory.taken.Load() >= bytes }, patience, time.Millisecond)
}

// Bodies that are under way share a bounded memory; whoever finds none is told to
// come again, and holds up nobody.
func TestMemoryOfBodiesIsBounded(t *testing.T) {
	s := start(t, small(20_000))
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
	require.Eventually(t, func() bool { return s.server().limits.memory.taken.Load() == 0 }, patience, time.Millisecond)
}

// Many small values take more memory than their bytes, and are counted so.
func TestWeight(t *testing.T) {
	require.EqualValues(t, 5, weight([]byte(`"abc"`)))
	for _, text := range []string{`[1,2,3]`, `{"a":{"b":[{},[],[[]]]}}`, `[[1,"x"],{"k":null,"l":[true,false]}]`, `1`, `"x"`} {
		values := strings.Count(text, ",") + strings.Count(text, ":") + strings.Count(text, "[") + strings.Count(text, "{") + 1
		require.NoError(t, new(pyjson.Document).ParseWithin([]byte(text), values), "%s has no more values than signs", text)
	}
	s := start(t, small(20_000))
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", 10_000))).want(http.StatusCreated)
	wide := `{"payload":{"list":[` + strings.Repeat("1,", 5_000) + `1]},"output":"x","model":"m","temperature":0,"max_tokens":9}`
	s.post("/ipc-records", wide).problem(http.StatusServiceUnavailable)
	require.EqualValues(t, 1, s.refusals(refusedMemory))
}

func TestShares(t *testing.T) {
	m := newBodyMemory(100, time.Hour)
	a, b := share{memory: m}, share{memory: m}
	require.NoError(t, a.take(t.Context(), 60))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.take(ctx, 60), context.Canceled, "who is gone was not refused")
	a.shrink(70) // holds less
	require.EqualValues(t, 60, m.taken.Load())
	a.shrink(40)
	require.NoError(t, b.take(t.Context(), 60))
	require.EqualValues(t, 100, m.taken.Load())
	a.release()
	b.release()
	a.release()
	require.Zero(t, m.taken.Load())
	require.NoError(t, a.take(t.Context(), 1000), "what is larger than all waits for all")
	require.EqualValues(t, 100, m.taken.Load())
	new(share).release()
}

// Content that clients do not read is held in memory too.
func TestMemoryOfAnswersIsBounded(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Wait, c.MaxBody, c.MaxLine = time.Millisecond, 16<<20, 16<<20 })
	const size = 12 << 20 // more than the sockets hold
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", size))).want(http.StatusCreated)
	s.server().limits.memory = newBodyMemory(20<<20, time.Millisecond)
	slow := s.dial()
	slow.say("GET {ledger}/records/1/content/output HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Eventually(t, func() bool { return s.server().limits.memory.taken.Load() == size }, patience, time.Millisecond)
	s.get("/records/1/content/output").problem(http.StatusServiceUnavailable)
	s.get("/log/tile/entries/000.p/2").problem(http.StatusServiceUnavailable)
	require.Len(t, slow.hear().want(http.StatusOK).body, size)
	s.get("/log/tile/entries/000.p/2").want(http.StatusOK)
	s.get("/records/1/content/output").want(http.StatusOK)
}

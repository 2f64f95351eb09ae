package api

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Nobody gets more than are left for all others, and what is given back can be taken
// again.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		s := newSlots(limit)
		held := make(map[string]int)
		taken := 0
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			who := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")
			if held[who] > 0 && rapid.Bool().Draw(t, "give") {
				s.give(who)
				held[who]--
				taken--
			} else {
				want := taken < limit
				take := s.take
				if rapid.Bool().Draw(t, "fairly") {
					want = want && held[who] < limit-taken
					take = s.takeShare
				}
				require.Equal(t, want, take(who))
				if want {
					held[who]++
					taken++
				}
			}
			require.Equal(t, taken, s.inUse())
			for who, n := range held {
				require.Equal(t, n, s.held[who])
			}
		}
	})
	s := newSlots(2048)
	hog := 0
	for s.takeShare("hog") {
		hog++
	}
	require.Equal(t, 1024, hog)
	require.True(t, s.takeShare("another"))
}

func TestBatchesAtOnce(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Batches = 1 })
	body, send := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, s.url+"/batch", body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", ndjson)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	refused := s.do(http.MethodPost, "/batch", "", "Content-Type", ndjson)
	require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "1 batches are under way")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.EqualValues(t, 1, s.refusals(refusedBatches))
	s.metrics().require(t, 1, "colophon_batches")
	require.NoError(t, send.Close())
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.server().limits.batches.inUse() == 0 }, patience, time.Millisecond)
	s.batch(ipcLine("a", "1"))
}

// What is beyond the bound is told so, but for those who watch the server; and as
// soon as somebody leaves, the next one is let in.
func TestConnectionsAtOnce(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Connections = 1 })
	ask := func(r *raw, path string) answer {
		r.say("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		return r.hear()
	}
	first := s.dial()
	ask(first, "/version").want(http.StatusOK)
	second := s.dial()
	refused := ask(second, "/version")
	require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "too many connections")
	second.ended()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		watcher := s.dial()
		ask(watcher, path).want(http.StatusOK)
		watcher.ended()
	}
	ask(first, "/version").want(http.StatusOK)
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return s.server().limits.connections.open.Load() == 0 }, patience, time.Millisecond)
	third := s.dial()
	ask(third, "/version").want(http.StatusOK)
}

// Beyond those that are told so, connections wait in the kernel's queue; none of
// them is lost.
func TestConnectionsThatWait(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Connections = 1 })
	most := MaxOpen(s.server().limits.load)
	var idle []*raw
	for range most {
		idle = append(idle, s.dial())
	}
	open := func() int { return int(s.server().limits.connections.open.Load()) }
	require.Eventually(t, func() bool { return open() == most }, patience, time.Millisecond)
	waiting := s.dial()
	waiting.say("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Equal(t, most, open())
	require.NoError(t, idle[0].Close())
	waiting.hear().want(http.StatusServiceUnavailable)
	require.Equal(t, 17, most)
}

package api

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

// fillHeavy occupies all cores for heavy work and all read turns until the returned function is
// called.
func (s *service) fillHeavy() (release func()) {
	cores := s.server().shared.Limiter.HeavyWorkLimiter.Slots
	endTurns := s.fillTurns(s.server())
	for range cap(cores) {
		cores <- struct{}{}
	}
	return func() {
		for range cap(cores) {
			<-cores
		}
		endTurns()
	}
}

// fillTurns occupies all read turns until the returned function is called.
func (s *service) fillTurns(server *Server) (release func()) {
	var turns []*limits.ReadTurn
	for range runtime.GOMAXPROCS(0) {
		turn := new(limits.ReadTurn)
		require.NoError(s.t, turn.Take(s.t.Context(), server.shared.Limiter.ReadScheduler, func() limits.Holder { return limits.Holder{} }))
		turns = append(turns, turn)
	}
	return func() {
		for _, turn := range turns {
			turn.Release()
		}
	}
}

// Batch lines that record nothing, such as malformed lines, wait for a read turn. Lines that are
// recorded do not wait.
func TestRefusedLinesWaitForATurn(t *testing.T) {
	s := start(t)
	release := s.fillTurns(s.server())
	s.batch(ipcLine("a", "1"))
	answered := make(chan answer)
	go func() { answered <- s.batch("malformed\nmalformed\n") }()
	select {
	case <-answered:
		require.Fail(t, "the malformed lines did not wait for a turn")
	case <-time.After(20 * time.Millisecond):
	}
	release()
	require.Len(t, (<-answered).lines(), 2)
	require.Eventually(t, func() bool { return s.server().shared.Limiter.ReadScheduler.RunningTurns() == 0 }, patience, time.Millisecond)
}

// heavyBody returns a record that needs a slot for heavy work.
func heavyBody(run string) string {
	return ipcBody(run, strings.Repeat("x", limits.HeavyThresholdBytes/limits.BodyMemoryFactor))
}

// While all cores and read turns are occupied, reads and heavy writes are refused after a bounded
// wait. All other requests are answered.
func TestHeavyWorkIsBounded(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxWait = time.Millisecond })
	s.post("/ipc-records", heavyBody("a")).want(http.StatusCreated)
	s.post("/citation-sets", `{"run_id":"b","subject":"s","citations":[{"source_id":"a","text":"x","weight":1}]}`).want(http.StatusCreated)
	compute := func(body string) answer {
		return s.do(http.MethodPost, strings.TrimSuffix(s.url, "/v1/ledgers/default")+"/v1/compute/ipc_record", body, "Content-Type", "application/json")
	}
	retrieval := `{"top_k":1,"sources":[{"id":"a","chunks":[{"text":"` + strings.Repeat("x", limits.HeavyThresholdBytes/limits.BodyMemoryFactor) + `"}]}]}`
	heavy := map[string]func() answer{
		"page":      func() answer { return s.get("/records?limit=100") },
		"content":   func() answer { return s.get("/records/1/content/output") },
		"document":  func() answer { return s.get("/citation-sets/2/document") },
		"receipt":   func() answer { return s.get("/records/1/receipt") },
		"public":    func() answer { return s.get("/log/checkpoint") },
		"events":    func() answer { return s.get("/events") },
		"retrieval": func() answer { return s.post("/citation-sets/2/pinned-retrieval", retrieval) },
		"compute":   func() answer { return compute(heavyBody("")) },
		"reproduce": func() answer { return s.post("/drift/reproduce", `{"seq":1,`+heavyBody("")[1:]) },
		"write":     func() answer { return s.post("/ipc-records", heavyBody("")) },
		"state":     func() answer { return s.post("/records/1/state", heavyBody("")) },
		"redaction": func() answer {
			return s.do(http.MethodDelete, s.url+"/records/1/content", heavyBody(""), "Content-Type", "application/json")
		},
		"redactions": func() answer { return s.post("/redactions", heavyBody("")) },
		"states":     func() answer { return s.post("/state-changes", heavyBody("")) },
		"keys":       func() answer { return s.post("/keys", heavyBody("")) },
	}
	release := s.fillHeavy()
	for name, ask := range heavy {
		refused := ask()
		require.Regexp(t, "^too many (large requests are|requests are waiting)", refused.problem(http.StatusServiceUnavailable).Detail, name)
		require.NotEmpty(t, refused.header.Get("Retry-After"), name)
	}
	require.EqualValues(t, len(heavy), s.refusals(limits.ReasonHeavyWork))
	s.post("/ipc-records", ipcBody("c", "small")).want(http.StatusCreated)
	s.batch(ipcLine("d", "1"))
	release()
	for name, ask := range heavy {
		require.NotEqual(t, http.StatusServiceUnavailable, ask().status, name)
	}
	work := &s.server().shared.Limiter.HeavyWorkLimiter
	require.Eventually(t, func() bool {
		return len(work.Slots) == 0 && s.server().shared.Limiter.ReadScheduler.RunningTurns() == 0
	}, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		return s.server().shared.Limiter.ReadMemory.BytesInUse() == 0 && s.server().shared.Limiter.WriteMemory.BytesInUse() == 0
	}, patience, time.Millisecond)
}

// A request whose client does not read the response holds no read turn, and neither does a request
// that waits for memory.
func TestWaitingRequestsHoldNoCore(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxBodySize, c.MaxLineSize = 12<<20, 12<<20 })
	work := s.server().shared.Limiter.ReadScheduler
	const size = 11 << 20 // too large for the socket buffers
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", size))).want(http.StatusCreated)
	slow := s.dial()
	slow.say("GET {ledger}/records/1/content/output HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Eventually(t, func() bool { return s.server().shared.Limiter.ReadMemory.BytesInUse() == size }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return work.RunningTurns() == 0 }, patience, time.Millisecond)
	s.get("/records?limit=100").want(http.StatusOK)
	require.Eventually(t, func() bool { return work.RunningTurns() == 0 }, patience, time.Millisecond)

	c := contextFrom(s, hog+":1")
	require.NoError(t, c.BeginAnswer(limits.HeavyThresholdBytes))
	require.Equal(t, 1, work.RunningTurns())
	require.NoError(t, c.HoldReadMemory(limits.HeavyThresholdBytes/2))
	require.Equal(t, 1, work.RunningTurns(), "the request keeps its turn")
	require.NoError(t, c.HoldReadMemory(2*limits.HeavyThresholdBytes))
	require.Zero(t, work.RunningTurns(), "a request that might wait for memory holds no turn")
	require.NoError(t, c.BeginAnswer(2*limits.HeavyThresholdBytes))
	_, err := io.WriteString(c.Writer(), "x")
	require.NoError(t, err)
	require.Zero(t, work.RunningTurns(), "a request that might wait for its client holds no turn")
	c.End()
}

// Once a response has begun, its request can no longer be refused. Instead of giving up after the
// usual wait, it waits until a read turn is free.
func TestAnswersThatHaveBegunAreNotRefused(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxWait = time.Millisecond })
	release := s.fillHeavy()
	c := contextFrom(s, hog+":1")
	require.Error(t, c.BeginRead())
	c.Response().WriteHeader(http.StatusOK)
	begun := make(chan error)
	go func() { begun <- c.BeginRead() }()
	select {
	case err := <-begun:
		require.Fail(t, "the response did not wait for a turn", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
	release()
	require.NoError(t, <-begun)
	c.End()
}

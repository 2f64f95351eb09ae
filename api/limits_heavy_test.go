package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

// fillHeavy takes all cores for heavy work until the returned function is called.
func (s *service) fillHeavy() (release func()) {
	cores := s.server().limits.Heavy.Cores
	for range cap(cores) {
		cores <- struct{}{}
	}
	return func() {
		for range cap(cores) {
			<-cores
		}
	}
}

// heavyBody is a record whose decoding is heavy.
func heavyBody(run string) string {
	return ipcBody(run, strings.Repeat("x", limits.HeavyMemory/limits.BodyCopies))
}

// Heavy work waits for a core, for a bounded time. Everything else continues.
func TestHeavyWorkIsBounded(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Wait = time.Millisecond })
	s.post("/ipc-records", heavyBody("a")).want(http.StatusCreated)
	s.post("/citation-sets", `{"run_id":"b","subject":"s","citations":[{"source_id":"a","text":"x","weight":1}]}`).want(http.StatusCreated)
	compute := func(body string) answer {
		return s.do(http.MethodPost, strings.TrimSuffix(s.url, "/v1/ledgers/default")+"/v1/compute/ipc_record", body, "Content-Type", "application/json")
	}
	retrieval := `{"top_k":1,"sources":[{"id":"a","chunks":[{"text":"` + strings.Repeat("x", limits.HeavyMemory/limits.BodyCopies) + `"}]}]}`
	heavy := map[string]func() answer{
		"page":      func() answer { return s.get("/records?limit=100") },
		"content":   func() answer { return s.get("/records/1/content/output") },
		"document":  func() answer { return s.get("/citation-sets/2/document") },
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
		"keys":       func() answer { return s.post("/keys", heavyBody("")) },
	}
	release := s.fillHeavy()
	for name, ask := range heavy {
		refused := ask()
		require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "too many large requests", name)
		require.NotEmpty(t, refused.header.Get("Retry-After"), name)
	}
	require.EqualValues(t, len(heavy), s.refusals(limits.RefusedHeavy))
	s.post("/ipc-records", ipcBody("c", "small")).want(http.StatusCreated)
	compute(ipcBody("", "small")).want(http.StatusOK)
	s.get("/records/2").want(http.StatusOK)
	s.get("/records?limit=1").want(http.StatusOK)
	release()
	for name, ask := range heavy {
		require.NotEqual(t, http.StatusServiceUnavailable, ask().status, name)
	}
	work := &s.server().limits.Heavy
	require.Eventually(t, func() bool { return len(work.Cores) == 0 && len(work.Reads) == 0 }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return s.server().limits.Reading.InUse() == 0 && s.server().limits.Writing.InUse() == 0 }, patience, time.Millisecond)
}

// A client that does not read its answer takes no core, and neither does one that waits for
// memory.
func TestWaitingRequestsHoldNoCore(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxBody, c.MaxLine = 12<<20, 12<<20 })
	work := &s.server().limits.Heavy
	const size = 11 << 20 // more than the sockets hold
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", size))).want(http.StatusCreated)
	slow := s.dial()
	slow.say("GET {ledger}/records/1/content/output HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Eventually(t, func() bool { return s.server().limits.Reading.InUse() == size }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return len(work.Cores) == 0 }, patience, time.Millisecond)
	s.get("/records?limit=100").want(http.StatusOK)

	c := contextFrom(s, hog+":1")
	require.NoError(t, buildAnswer(c, limits.HeavyMemory))
	require.Len(t, work.Cores, 1)
	require.NoError(t, holdAnswer(c, limits.HeavyMemory/2))
	require.Len(t, work.Cores, 1, "the work goes on")
	require.NoError(t, holdAnswer(c, 2*limits.HeavyMemory))
	require.Empty(t, work.Cores, "it may wait for memory")
	require.NoError(t, buildAnswer(c, 2*limits.HeavyMemory))
	_, err := io.WriteString(&c.writer, "x")
	require.NoError(t, err)
	require.Empty(t, work.Cores, "it may wait for the client")
	c.end()
	require.Empty(t, work.Reads)
}

// A long answer that has begun waits for a core as long as its client does.
func TestAnswersThatHaveBegunAreNotRefused(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Wait = time.Millisecond })
	release := s.fillHeavy()
	c := contextFrom(s, hog+":1")
	require.Error(t, beginHeavy(c, limits.HeavyMemory, true))
	c.Response().WriteHeader(http.StatusOK)
	begun := make(chan error)
	go func() { begun <- beginHeavy(c, limits.HeavyMemory, true) }()
	select {
	case err := <-begun:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
	release()
	require.NoError(t, <-begun)
	c.end()
}

package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/figures"
)

// A caller without the content scope gets the same answer, but without the figures about texts.
func TestFiguresNeedTheScopeContent(t *testing.T) {
	g := startGated(t)
	with := caller{authorization: bearer(g.token("with", []string{"default"}, []string{"read", "content"}).Text)}
	without := caller{authorization: bearer(g.token("without", []string{"default"}, []string{"read"}).Text)}
	const path = "/v1/ledgers/default/drift/attribution?a=1&b=6&as_of=9"
	plain := g.ask(with, "GET", path, "").want(http.StatusOK)
	shown := g.ask(with, "GET", path+"&text=true", "").want(http.StatusOK)
	require.Contains(t, string(shown.body), `"text"`)
	require.Equal(t, "no-store", shown.header.Get("Cache-Control"))

	hidden := g.ask(without, "GET", path+"&text=true", "").want(http.StatusOK)
	require.Equal(t, string(plain.body), string(hidden.body))
	require.Equal(t, plain.header.Get("Cache-Control"), hidden.header.Get("Cache-Control"))
	require.Equal(t, string(plain.body), string(g.ask(without, "GET", path, "").body))
}

func TestDiffNeedsTwoRecords(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	for query, detail := range map[string]string{
		"":             "a: is required; use the seq of a record",
		"?a=1":         "b: is required; use the seq of a record",
		"?a=1&b=2":     "b: there is no event 2: the ledger has 2 events",
		"?a=1&b=1&of=": "of: must not be empty",
		"?a=1&c=1":     "c: unknown query parameter; the known parameters are a, b, of",
	} {
		require.Equal(t, detail, s.get("/diff"+query).problem(http.StatusBadRequest).Detail)
	}
	require.Contains(t, s.get("/diff?a=1&b=1&of=passage").problem(http.StatusNotFound).Detail, `event 1 has no content named "content"`)
}

// Texts that are too long for a diff still have figures.
func TestTextsThatAreTooLongForADiff(t *testing.T) {
	s := start(t)
	long := strings.Repeat("a ", 1<<20)
	s.post("/ipc-records", ipcBody("", long+"x")).want(http.StatusCreated)
	s.post("/ipc-records", ipcBody("", long+"y")).want(http.StatusCreated)
	require.Contains(t, s.get("/diff?a=1&b=2").problem(http.StatusUnprocessableEntity).Detail, fmt.Sprint(figures.MaxDiffBytes))
	var answer struct {
		Text struct {
			Output struct{ Similarity float64 }
		}
	}
	s.get("/drift/attribution?a=1&b=2&after=2&text=true").want(http.StatusOK).json(&answer)
	require.InDelta(t, 1, answer.Text.Output.Similarity, 0.00001)
}

// A request that reads texts holds memory and a core. It is refused if no memory or no core is
// free.
func TestTextsHoldMemoryAndACore(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxWait = time.Millisecond })
	s.post("/ipc-records", ipcBody("", strings.Repeat("o ", 1<<18))).want(http.StatusCreated)
	s.get("/records/1?after=1").want(http.StatusOK)
	for _, path := range []string{"/diff?a=1&b=1", "/drift/attribution?a=1&b=1&after=1&text=true"} {
		release := s.fillHeavy()
		require.Contains(t, s.get(path).problem(http.StatusServiceUnavailable).Detail, "core", path)
		release()
		release = s.fillReading()
		require.Contains(t, s.get(path).problem(http.StatusServiceUnavailable).Detail, "too much memory for answers is in use", path)
		release()
		s.get(path).want(http.StatusOK)
		require.Eventually(t, func() bool { return s.server().shared.Limiter.ReadMemory.BytesInUse() == 0 }, patience, time.Millisecond, path)
	}
}

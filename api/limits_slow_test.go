package api

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/api/limits"
	"colophon/ledger"
)

// soon is a timeout that is short enough for tests to wait for, but longer than any other operation
// in these tests.
const soon = 300 * time.Millisecond

// If a body does not arrive in time, the server answers and closes the connection, whether or not a
// handler reads the body.
func TestBodiesThatDoNotArrive(t *testing.T) {
	s := start(t, func(c *Config) { c.BodyTimeout = soon })
	for path, status := range map[string]int{
		"{ledger}/ipc-records": http.StatusRequestTimeout, "/nowhere": http.StatusNotFound, "{ledger}/freeze": http.StatusOK,
		"{ledger}/otlp/v1/traces": http.StatusServiceUnavailable, // exporters do not repeat a request after 408
	} {
		slow := s.dial()
		slow.say("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", path)
		a := slow.hear().want(status)
		require.Equal(t, status == http.StatusServiceUnavailable, a.header.Get("Retry-After") != "")
		slow.ended()
	}
	require.EqualValues(t, 2, s.refusals(limits.ReasonSlowSender))
	s.quiet()
}

// If a handler takes longer than BodyTimeout, the client is not treated as disconnected.
func TestBodyTimeoutEndsWithTheBody(t *testing.T) {
	s := start(t, func(c *Config) { c.BodyTimeout = soon })
	committing, release := make(chan struct{}), make(chan struct{})
	s.ledger().OnCommit(func(ledger.Commit) {
		close(committing)
		<-release
	})
	answered := make(chan answer)
	go func() { answered <- s.post("/ipc-records?derive=true", ipcBody("", "x")) }()
	<-committing
	probe := s.dial() // once it times out, the first request is past BodyTimeout, too
	probe.say("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n")
	probe.ended()
	close(release)
	require.Contains(t, string((<-answered).want(http.StatusCreated).body), `"checkpoint"`)
}

// A batch whose client sends nothing for BatchIdleTimeout ends with 408. Its complete lines are answered.
func TestIdleBatches(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.BatchIdleTimeout = soon })
	for _, half := range []string{"", strings.TrimSuffix(ipcLine("", "2"), "\n")} {
		idle := s.dial()
		idle.say("POST {ledger}/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100000\r\n\r\n%s%s", call.NDJSONMediaType, ipcLine("", "1"), half)
		lines := idle.hear().want(http.StatusOK).parsed()
		require.Len(t, lines, 2)
		require.NotNil(t, lines[0].Seq)
		require.Equal(t, http.StatusRequestTimeout, lines[1].Status)
		require.Equal(t, 2, lines[1].Line)
		idle.ended()
	}
	require.EqualValues(t, 3, s.size())
	require.EqualValues(t, 2, s.refusals(limits.ReasonSlowSender))
	s.metrics().require(t, 2, "colophon_batch_lines_total", "status", "201")
	s.metrics().require(t, 2, "colophon_batch_lines_total", "status", "408")
	s.quiet()
}

// A client that does not read its response is disconnected. A client that reads gets even a long
// response.
func TestAnswersThatAreNotRead(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.WriteTimeout, c.MaxBodySize = soon, 32<<20 })
	const size = 16 << 20 // too large for the socket buffers
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", size))).want(http.StatusCreated)
	slow := s.dial()
	slow.say("GET {ledger}/records/1/content/output HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Eventually(t, func() bool { return s.refusals(limits.ReasonSlowReader) == 1 }, patience, time.Millisecond)
	slow.ended()
	s.quiet()
	require.Len(t, s.get("/records/1/content/output").want(http.StatusOK).body, size)
}

// A client that sends a batch but reads none of the results is disconnected. Afterwards, no spool
// file is left and no memory is held.
func TestResultsThatAreNotRead(t *testing.T) {
	dir := t.TempDir()
	s := start(t, func(c *Config) { c.ServerLimits.BatchIdleTimeout, c.SpoolDir, c.SpoolBufferBytes = soon, dir, 1<<10 })
	deaf := s.dial()
	deaf.say("POST {ledger}/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100000000\r\n\r\n", call.NDJSONMediaType)
	deaf.say("%s", strings.Repeat("{bad}\n", 100_000)) // 25 MB of results
	require.Eventually(t, func() bool { return s.refusals(limits.ReasonSlowReader) == 1 }, patience, time.Millisecond)
	deaf.ended()
	s.quiet()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Clients that never read cannot fill the disk. Spool files are limited per batch and in total.
func TestSpoolsAreBounded(t *testing.T) {
	for name, bound := range map[string]func(*limits.ServerLimits){
		"of one batch": func(l *limits.ServerLimits) { l.MaxBatchSpool = 1 << 20 },
		"together":     func(l *limits.ServerLimits) { l.MaxSpool = 1 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, func(c *Config) { c.SpoolDir, c.SpoolBufferBytes = dir, 1<<10; bound(&c.ServerLimits) })
			deaf := s.dial()
			deaf.say("POST {ledger}/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100000000\r\n\r\n", call.NDJSONMediaType)
			go func() { _, _ = deaf.Write([]byte(strings.Repeat("{bad}\n", 100_000))) }()
			require.Eventually(t, func() bool { // if the socket buffers absorb all spooled results, the refusal follows at once
				return s.server().shared.Limiter.SpoolSpace.TakenBytes.Load() > 1<<19 || s.refusals(limits.ReasonSpool) == 1
			}, patience, time.Millisecond)
			require.Eventually(t, func() bool { return !isRunning("colophon/api/batch.(*batch).read(") }, patience, time.Millisecond, "the server still reads the batch")
			// The client reads what was sent, and sees that the answer is incomplete.
			require.NoError(t, deaf.SetReadDeadline(time.Now().Add(patience)))
			response, err := http.ReadResponse(deaf.answers, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, response.Body)
			require.Error(t, err)
			require.Eventually(t, func() bool { return s.refusals(limits.ReasonSpool) == 1 }, patience, time.Millisecond)
			_ = deaf.Close()
			s.quiet()
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

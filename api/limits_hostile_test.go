package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/api/limits"
	"colophon/internal/testing/bodies"
	"colophon/ledger/record"
)

func TestDecompressionBombs(t *testing.T) {
	s := start(t)
	bomb := strings.Repeat("\x00", limits.UncheckedExpansionBytes+16<<20)
	for encoding, body := range map[string]string{
		"gzip": bodies.Gzip(t, ipcLine("", "1"), bomb, ipcLine("", "2")),
		"zstd": bodies.Zstandard(t, nil, ipcLine("", "1"), bomb, ipcLine("", "2")),
	} {
		lines := s.batch(body, "Content-Encoding", encoding).parsed()
		require.NotNil(t, lines[0].Seq)
		last := lines[len(lines)-1]
		require.Equal(t, http.StatusRequestEntityTooLarge, last.Status)
		require.Contains(t, last.Detail, "more than 250 times")
	}
	require.EqualValues(t, 3, s.size(), "nothing after the bomb may be read")
	require.EqualValues(t, 2, s.refusals(limits.ReasonExpansion))
}

func TestZstdWindows(t *testing.T) {
	s := start(t)
	wide := bodies.Zstandard(t, []zstd.EOption{zstd.WithWindowSize(2 * limits.MaxZstdWindowBytes), zstd.WithSingleSegment(false)}, strings.Repeat(ipcLine("", "1"), 100_000))
	require.Contains(t, s.batch(wide, "Content-Encoding", "zstd").parsed()[0].Detail, "window is larger")
	require.EqualValues(t, 1, s.refusals(limits.ReasonExpansion))
}

// If a batch ends early, the bytes that follow it on the connection are not read as a request.
func TestUnreadBodiesAreNotReadAsRequests(t *testing.T) {
	s := start(t)
	smuggler := s.dial()
	smuggler.say("POST {ledger}/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\nContent-Length: 100000\r\n\r\nthis is not gzip", call.NDJSONMediaType)
	require.Equal(t, http.StatusBadRequest, smuggler.hear().want(http.StatusOK).parsed()[0].Status)
	require.Eventually(t, func() bool { return s.server().shared.Limiter.BatchSlots.InUse() == 0 }, patience, time.Millisecond)
	_, _ = io.WriteString(smuggler, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, smuggler.SetReadDeadline(time.Now().Add(patience)))
	rest, _ := io.ReadAll(smuggler.answers)
	require.Empty(t, rest)
}

// A body that is nested too deeply or contains too many values is refused with an error that says
// so. The limit on values bounds the cost of refusing it.
func TestDeepAndWideRecords(t *testing.T) {
	bounds := record.DefaultLimits()
	refused := func(payload string) string {
		body := []byte(`{"payload":{"a":` + payload + `},"model":"m","temperature":0,"max_tokens":9}`)
		var err error
		cost := bodies.AllocatedBytes(func() { _, err = bounds.ParseRecord(record.KindIPCRecord, body) })
		require.Error(t, err)
		require.Less(t, cost, uint64(8*limits.BytesPerValue*bounds.MaxJSONValues), "the cost must be at most proportional to the limit on values")
		return err.Error()
	}
	require.Contains(t, refused(strings.Repeat("[", 4<<20)), "nested too deeply")
	require.Contains(t, refused(strings.Repeat(`{"a":`, 1<<20)), "nested too deeply")
	require.Contains(t, refused("["+strings.Repeat("0,", 3<<20)+"0]"), "more than 1000000 values and member names")
	require.Contains(t, refused("["+strings.Repeat("[],", 2<<20)+"0]"), "more than 1000000 values and member names")
	var names strings.Builder
	for i := range 600_000 {
		fmt.Fprintf(&names, `"%06x":0,`, i)
	}
	require.Contains(t, refused("{"+names.String()+`"z":0}`), "more than 1000000 values and member names")
}

func TestURLs(t *testing.T) {
	s := start(t)
	require.Contains(t, s.get("/records?run_id="+strings.Repeat("x", limits.MaxURLBytes)).problem(http.StatusRequestURITooLong).Detail, "16384 bytes")
	require.Contains(t, s.get("/runs/"+strings.Repeat("%2F", limits.MaxURLBytes/3)).problem(http.StatusRequestURITooLong).Detail, "16384 bytes")
	require.Contains(t, s.get("/records?"+strings.Repeat("a&", limits.MaxQueryParameters)).problem(http.StatusRequestURITooLong).Detail, "64 parameters")
	require.EqualValues(t, 3, s.refusals(limits.ReasonURL))
	require.Contains(t, s.get("/records?limit=1;x").problem(http.StatusBadRequest).Detail, "malformed")
	require.Contains(t, s.get("/records?limit=%zz").problem(http.StatusBadRequest).Detail, "malformed")
	for _, query := range []string{"/records?run_id=%ff", "/records?%ff=1", "/records?label:a=%c0%af", "/events?from=%ed%a0%80"} {
		require.Contains(t, s.get(query).problem(http.StatusBadRequest).Detail, "valid UTF-8", query)
	}
	longest := "/records?run_id=" + strings.Repeat("%E2%82%AC", 341) + "&subject=" + strings.Repeat("%E2%82%AC", 341)
	s.get(longest).want(http.StatusOK)
	r, err := http.NewRequest(http.MethodGet, s.url, nil)
	require.NoError(t, err)
	r.Header.Set("X-Long", strings.Repeat("x", 80<<10))
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, s.send(r).status)
}

// Refusals of bodies and batch lines that are too long are counted.
func TestSizesAreCounted(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxBodySize, c.MaxLineSize = 1000, 1000 })
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", 1000))).problem(http.StatusRequestEntityTooLarge)
	s.batch(ipcLine("", strings.Repeat("x", 1000)) + ipcLine("", "1") + ipcLine("a", "1") + ipcLine("a", "1") + ipcLine("a", "2"))
	m := s.metrics()
	m.require(t, 2, "colophon_refusals_total", "reason", "size")
	for status, count := range map[string]float64{"413": 1, "201": 2, "200": 1, "409": 1} {
		m.require(t, count, "colophon_batch_lines_total", "status", status)
	}
	for _, why := range limits.RefusalReasons {
		if why != limits.ReasonSize {
			m.require(t, 0, "colophon_refusals_total", "reason", string(why))
		}
	}
}

// A zstd body of a few bytes can require a decoding window of megabytes. The window counts as
// memory until the batch ends, and a batch is refused if no memory is left.
func TestWindowsAreCounted(t *testing.T) {
	s := start(t, small(40<<20))
	line := bodies.Zstandard(t, nil, ipcLine("", "1"))
	for held := int64(limits.MaxZstdWindowBytes); held <= 2*limits.MaxZstdWindowBytes; held += limits.MaxZstdWindowBytes {
		s.dial().say("POST {ledger}/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Encoding: zstd\r\nContent-Length: 100000\r\n\r\n%s", call.NDJSONMediaType, line)
		s.underWay(held)
	}
	refused := s.batch(line, "Content-Encoding", "zstd").parsed()
	require.Equal(t, http.StatusServiceUnavailable, refused[0].Status)
	taken := s.batch(bodies.Gzip(t, ipcLine("", "1")), "Content-Encoding", "gzip").parsed()
	require.NotNil(t, taken[0].Seq)
}

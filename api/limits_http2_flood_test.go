package api

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"colophon/api/limits"
)

// framed is a client connection on which a test can violate the rules of HTTP/2.
type framed struct {
	t testing.TB
	*http2.Framer
	conn   net.Conn
	stream uint32 // stream ID of the last request
}

// frames opens an HTTP/2 connection over TLS with the given settings.
func (s *service) frames(settings ...http2.Setting) *framed {
	s.t.Helper()
	conn, err := tls.Dial("tcp", s.http.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // #nosec G402 -- the test's own server
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(s.t, err)
	f := &framed{t: s.t, Framer: http2.NewFramer(conn, conn), conn: conn, stream: ^uint32(0)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	require.NoError(s.t, f.WriteSettings(settings...))
	return f
}

// header encodes the header of a GET request. more holds further header fields, as alternating
// names and values.
func header(path string, more ...string) []byte {
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	fields := append([]string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", path}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // writing to memory cannot fail
	}
	return b.Bytes()
}

// get sends a GET request on a new stream.
func (f *framed) get(path string) error {
	f.stream += 2
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: header(path), EndStream: true, EndHeaders: true})
}

// until reads frames until wanted accepts one, and returns that frame. It returns nil if the connection ends
// first.
func (f *framed) until(wanted func(http2.Frame) bool) http2.Frame {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			var late net.Error
			require.False(f.t, errors.As(err, &late) && late.Timeout(), "the server neither answers nor ends the connection")
			return nil
		}
		if wanted(frame) {
			return frame
		}
	}
}

// status returns the status of the response on a stream, or "" if the stream is reset or the
// connection ends.
func (f *framed) status(stream uint32) (status string) {
	f.until(func(frame http2.Frame) bool {
		if h, is := frame.(*http2.MetaHeadersFrame); is && h.StreamID == stream {
			status = h.PseudoValue("status")
			return true
		}
		reset, is := frame.(*http2.RSTStreamFrame)
		return is && reset.StreamID == stream
	})
	return status
}

// healthy requires that the server answers on a new connection.
func (s *service) healthy() {
	s.t.Helper()
	f := s.frames()
	require.NoError(s.t, f.get("/healthz"))
	require.Equal(s.t, "200", f.status(f.stream))
	require.NoError(s.t, f.conn.Close())
}

// Requests that are cancelled immediately (CVE-2023-44487) do not accumulate: either the connection
// ends, or the number of handlers that are still running stays within its limit.
func TestRapidResetsOverHTTP2(t *testing.T) {
	s := start(t).secured()
	before, most := runtime.NumGoroutine(), 0
	f := s.frames()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := f.ReadFrame(); err != nil {
				return
			}
		}
	}()
	for i := range 20_000 {
		if f.get("/v1/ledgers/default/records?events=true") != nil || f.WriteRSTStream(f.stream, http2.ErrCodeCancel) != nil {
			break // the server has closed the connection
		}
		if i%100 == 0 {
			most = max(most, runtime.NumGoroutine()-before)
		}
	}
	require.LessOrEqual(t, most, 5*maxStreams)
	s.healthy()
	_ = f.conn.Close()
	<-ended
	s.http.Client().CloseIdleConnections()
	require.Eventually(t, func() bool {
		return s.server().shared.Limiter.StreamSlots.InUse() == 0 && s.server().shared.Limiter.ReadMemory.BytesInUse() == 0
	}, patience, time.Millisecond)
}

// The number of requests in progress on a connection is bounded. The server refuses further streams
// and keeps the connection open.
func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.HeartbeatInterval = time.Hour }).secured()
	f := s.frames()
	for range maxStreams + 1 {
		f.stream += 2
		require.NoError(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, EndStream: true, EndHeaders: true,
			BlockFragment: header("/v1/ledgers/default/events", "accept", eventStream)}))
	}
	frame := f.until(func(frame http2.Frame) bool { _, is := frame.(*http2.RSTStreamFrame); return is })
	require.NotNil(t, frame, "the connection stays open")
	require.Equal(t, f.stream, frame.Header().StreamID)
	require.Equal(t, http2.ErrCodeRefusedStream, frame.(*http2.RSTStreamFrame).ErrCode)
	require.LessOrEqual(t, s.server().shared.Limiter.FollowerSlots.InUse(), maxStreams)
}

// All HTTP/2 connections of an address together can use at most half of the request slots that
// other addresses leave free.
func TestRequestsOverHTTP2AreShared(t *testing.T) {
	plain := start(t, func(c *Config) { c.ServerLimits.MaxConnections, c.ServerLimits.HeartbeatInterval = 8, time.Hour })
	s := plain.secured()
	f := s.frames()
	for range 4 {
		f.stream += 2
		require.NoError(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, EndStream: true, EndHeaders: true,
			BlockFragment: header("/v1/ledgers/default/events", "accept", eventStream)}))
		require.Equal(t, "200", f.status(f.stream))
	}
	require.NoError(t, f.get("/v1/ledgers/default"))
	require.Equal(t, "503", f.status(f.stream))
	require.NoError(t, f.get("/healthz"))
	require.Equal(t, "200", f.status(f.stream), "monitoring requests are still answered")
	require.EqualValues(t, 1, plain.refusals(limits.ReasonConnections))
	_ = f.conn.Close()
	require.Eventually(t, func() bool { return s.server().shared.Limiter.StreamSlots.InUse() == 0 }, patience, time.Millisecond)
}

// The server refuses a header that is too long, in one frame or in many. It closes the connection
// if a header never ends (a CONTINUATION flood). It does not keep such headers in memory.
func TestHeadersOverHTTP2AreBounded(t *testing.T) {
	s := start(t).secured()
	s.healthy()
	const flood = 64 << 20
	long := header("/healthz", "x-long", strings.Repeat("long", 4<<10), "x-longer", strings.Repeat("long", 16<<10))
	f := s.frames()
	f.stream += 2
	require.NoError(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: long[:16<<10], EndStream: true}))
	for rest := long[16<<10:]; len(rest) > 0; {
		n := min(len(rest), 16<<10)
		require.NoError(t, f.WriteContinuation(f.stream, n == len(rest), rest[:n]))
		rest = rest[n:]
	}
	require.Contains(t, []string{"431", ""}, f.status(f.stream))

	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f = s.frames()
	f.stream += 2
	require.NoError(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: header("/healthz"), EndStream: true}))
	piece := header("/healthz", "x-more", strings.Repeat("more", 3<<10))
	piece = piece[len(header("/healthz")):]
	sent := 0
	for ; sent < flood; sent += len(piece) {
		if f.WriteContinuation(f.stream, false, piece) != nil {
			break // the server has closed the connection
		}
	}
	require.Less(t, sent, flood, "the server must close the connection")
	metrics.Read(sample)
	require.Less(t, sample[0].Value.Uint64()-before, uint64(flood/4))
	s.healthy()
}

// The unread responses on one connection hold at most their caller's share of memory. They are
// reset if the client does not read them in time. Meanwhile, other callers are answered.
func TestSlowStreamsOverHTTP2(t *testing.T) {
	const size = 4 << 20
	s := start(t, func(c *Config) {
		c.ServerLimits.WriteTimeout, c.ServerLimits.MaxWait, c.ServerLimits.MaxAnswerMemory = 10*soon, time.Millisecond, 48<<20
		c.MaxBodySize, c.MaxLineSize = size+64<<10, size+64<<10
	})
	s.post("/ipc-records", ipcBody("", strings.Repeat("x", size))).want(http.StatusCreated)
	plain := s
	s = s.secured()
	f := s.frames(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	read := func() int64 { return s.server().shared.Limiter.ReadMemory.BytesInUse() }
	for range 50 {
		require.NoError(t, f.get("/v1/ledgers/default/records/1/content/output"))
	}
	require.Eventually(t, func() bool { return read() >= size }, patience, time.Millisecond)
	require.LessOrEqual(t, read(), int64(48<<20))
	other := limits.MemoryShare{Budget: s.server().shared.Limiter.ReadMemory, Holder: limits.Holder{Name: "other"}}
	require.Eventually(t, func() bool { return other.Take(t.Context(), 1<<20) == nil }, patience, time.Millisecond)
	other.Release()
	plain.post("/ipc-records", ipcBody("", "y")).want(http.StatusCreated)
	require.Eventually(t, func() bool { return read() == 0 }, patience, time.Millisecond)
	require.Positive(t, plain.refusals(limits.ReasonSlowReader))
}

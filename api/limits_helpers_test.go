package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
)

func (s *service) server() *Server { return s.http.Config.Handler.(*Server) }

// contextFrom returns a call for a GET request for / from the given address.
func contextFrom(s *service, remote string) *call.Call {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remote
	return s.server().newCall(httptest.NewRecorder(), r)
}

func trusted(names ...string) (list []*net.IPNet) {
	for _, name := range names {
		_, network, err := net.ParseCIDR(name)
		if err != nil {
			panic(err)
		}
		list = append(list, network)
	}
	return list
}

// raw is a client connection on which a test can violate the rules of HTTP.
type raw struct {
	t testing.TB
	net.Conn
	answers *bufio.Reader
}

// dial opens a connection with a small receive buffer.
func (s *service) dial() *raw {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.http.Listener.Addr().String())
	require.NoError(s.t, err)
	require.NoError(s.t, connection.(*net.TCPConn).SetReadBuffer(64<<10))
	s.t.Cleanup(func() { _ = connection.Close() })
	return &raw{s.t, connection, bufio.NewReader(connection)}
}

// say sends the formatted text, in which it replaces {ledger} with the path of the default ledger.
func (r *raw) say(format string, args ...any) {
	r.t.Helper()
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "{ledger}", "/v1/ledgers/default")
	_, err := io.WriteString(r, text)
	require.NoError(r.t, err)
}

// hear reads one complete response.
func (r *raw) hear() answer {
	r.t.Helper()
	require.NoError(r.t, r.SetReadDeadline(time.Now().Add(patience)))
	response, err := http.ReadResponse(r.answers, nil)
	require.NoError(r.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	return answer{r.t, response.StatusCode, response.Header, body}
}

// ended waits until the server has closed the connection, and discards everything that the server
// sent before.
func (r *raw) ended() {
	r.t.Helper()
	require.NoError(r.t, r.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, r.answers)
	var late net.Error
	require.False(r.t, err != nil && errors.As(err, &late) && late.Timeout(), "the server has not closed the connection")
}

// quiet waits until no request is in progress and no memory is held.
func (s *service) quiet() {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	l := s.server().shared.Limiter
	require.Eventually(s.t, func() bool {
		return l.Connections.Open.Load() == 0 && l.BatchSlots.InUse() == 0 && l.FollowerSlots.InUse() == 0 &&
			l.WriteMemory.BytesInUse() == 0 && l.ReadMemory.BytesInUse() == 0 && l.SpoolSpace.TakenBytes.Load() == 0 &&
			!isRunning("net/http.(*conn).serve(") && !isRunning("colophon/api/batch.(*batch)")
	}, patience, time.Millisecond)
}

// isRunning reports whether any goroutine has the named function on its stack.
func isRunning(name string) bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), name)
}

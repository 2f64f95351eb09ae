package api

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
)

// secured returns a copy of s that serves HTTP/2 over TLS.
func (s *service) secured() *service {
	s.t.Helper()
	server := httptest.NewUnstartedServer(s.server())
	server.Config, server.Listener = s.server().HTTPServer(), s.server().LimitListener(server.Listener)
	server.EnableHTTP2 = true
	server.StartTLS()
	s.t.Cleanup(server.Close)
	return &service{t: s.t, database: s.database, host: s.host, http: server, url: server.URL + "/v1/ledgers/default"}
}

// Over HTTP/2, streams share a connection. A timeout on one stream does not affect the others, and an idle
// event stream has no timeout.
func TestStreamsOverHTTP2(t *testing.T) {
	s := start(t, func(c *Config) {
		c.ServerLimits.WriteTimeout, c.BodyTimeout, c.ServerLimits.BatchIdleTimeout = soon, soon, 3*soon
		c.ServerLimits.HeartbeatInterval = time.Hour
	}).secured()
	l := s.listen("?from=0")
	l.events(1)
	body, send := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, s.url+"/batch", body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", call.NDJSONMediaType)
	response, err := s.http.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor)
	answers := bufio.NewReader(response.Body)
	for _, want := range []string{`"seq":1,`, `"seq":2,`} {
		_, err = io.WriteString(send, ipcLine("", "x"))
		require.NoError(t, err)
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, want)
	}
	line, err := answers.ReadString('\n') // arrives after BatchIdleTimeout, which is longer than the other timeouts
	require.NoError(t, err)
	require.Contains(t, line, `"status":408`)
	_, err = answers.ReadByte()
	require.ErrorIs(t, err, io.EOF)

	r, err := http.NewRequest(http.MethodPost, s.url+"/ipc-records", http.NoBody)
	require.NoError(t, err)
	response, err = s.http.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusUnsupportedMediaType, response.StatusCode)
	require.EqualValues(t, 1, s.server().shared.Limiter.Connections.Open.Load(), "all streams share one connection")
	for i, e := range l.events(2) {
		require.Equal(t, decimal(uint64(i+1)), e.id, "the follower has been idle for longer than a write may take")
	}
}

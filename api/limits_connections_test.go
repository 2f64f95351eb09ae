package api

import (
	"bufio"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

// dialFrom opens a connection from the given address, which must belong to this machine.
func (s *service) dialFrom(address string) *raw {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	connection, err := dialer.DialContext(s.t.Context(), "tcp", s.http.Listener.Addr().String())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = connection.Close() })
	return &raw{s.t, connection, bufio.NewReader(connection)}
}

func (r *raw) ask(path string) answer {
	r.t.Helper()
	r.say("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	return r.hear()
}

const hog = "127.0.0.2"

// If an address has more connections than its share, requests on the extra connections are refused,
// except for those to the monitoring endpoints. Other addresses are served. Once the address has
// closed its connections, its new connections are served again.
func TestConnectionsOfAnAddress(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxConnections = 4 })
	first, second := s.dialFrom(hog), s.dialFrom(hog)
	first.ask("/version").want(http.StatusOK)
	second.ask("/version").want(http.StatusOK)
	third := s.dialFrom(hog)
	require.Contains(t, third.ask("/version").problem(http.StatusServiceUnavailable).Detail, "too many connections")
	third.ended()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		watcher := s.dialFrom(hog)
		watcher.ask(path).want(http.StatusOK)
		watcher.ended()
	}
	s.dial().ask("/version").want(http.StatusOK)
	first.ask("/version").want(http.StatusOK)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	regular := s.server().shared.Limiter.Connections.Regular
	require.Eventually(t, func() bool { return regular.InUse() == 1 }, patience, time.Millisecond)
	s.dialFrom(hog).ask("/version").want(http.StatusOK)
}

// The number of connections on which requests are refused is itself limited for each address. The
// server closes any further connections immediately and counts them in its metrics.
func TestConnectionsThatAreClosedAtOnce(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxConnections = 4 })
	for range 2 + 8 {
		s.dialFrom(hog).say("GET /version HTTP/1.1\r\n") // half a header
	}
	s.dialFrom(hog).ended()
	other := s.dial()
	other.ask("/healthz").want(http.StatusOK)
	other.ask("/version").want(http.StatusOK)
	require.EqualValues(t, 1, counterOf(t, s, limits.ReasonConnections))
	require.Equal(t, 20, limits.MaxOpenConnections(s.server().shared.Limiter.Limits))
}

// A trusted proxy can use all connections. While few connections remain, each connection is closed
// after its next response.
func TestConnectionsOfAProxy(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxConnections, c.ServerLimits.TrustedProxies = 4, trusted(hog+"/32") })
	var all []*raw
	for range 3 {
		all = append(all, s.dialFrom(hog))
		all[0].ask("/version").want(http.StatusOK)
		all[len(all)-1].ask("/version").want(http.StatusOK)
	}
	last := s.dialFrom(hog)
	last.ask("/version").want(http.StatusOK)
	last.ended()
}

package api

import (
	"bufio"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dialFrom opens a connection from an address of this machine.
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

// What an address opens beyond its share is told so, but for those who watch the
// server; others are answered, and as soon as it closes one it gets the next.
func TestConnectionsOfAnAddress(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Connections = 4 })
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
	regular := s.server().limits.connections.regular
	require.Eventually(t, func() bool { return regular.inUse() == 1 }, patience, time.Millisecond)
	s.dialFrom(hog).ask("/version").want(http.StatusOK)
}

// Nor does it get more than its share of those that are told so: what comes beyond
// them is closed at once, and who watches the server sees it.
func TestConnectionsThatAreClosedAtOnce(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Connections = 4 })
	for range 2 + 8 {
		s.dialFrom(hog).say("GET /version HTTP/1.1\r\n") // half a header
	}
	s.dialFrom(hog).ended()
	other := s.dial()
	other.ask("/healthz").want(http.StatusOK)
	other.ask("/version").want(http.StatusOK)
	require.EqualValues(t, 1, counterOf(t, s, refusedConnections))
	require.Equal(t, 20, MaxOpen(s.server().limits.load))
}

// A proxy that is trusted has as many as there are; while few are left, they end with
// their answer.
func TestConnectionsOfAProxy(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Connections, c.Load.TrustedProxies = 4, trusted(hog+"/32") })
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

// deadlines notes those of a connection.
type deadlines struct {
	net.Conn
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = t
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = t
	return nil
}

// Requests have less time to come while few connections are left, and what is beyond
// the bound has little for everything.
func TestDeadlinesOfConnections(t *testing.T) {
	all := newConnections(Load{Connections: 4})
	noted := new(deadlines)
	c := &connection{Conn: noted, all: all, kind: all.regular}
	server := start(t).server().HTTP()
	later := time.Now().Add(time.Hour)
	for _, crowd := range []bool{false, true} {
		for state, waits := range map[http.ConnState]bool{http.StateNew: true, http.StateIdle: true, http.StateActive: false} {
			server.ConnState(c, state)
			require.NoError(t, c.SetDeadline(later))
			require.Equal(t, later, noted.write)
			if waits && crowd {
				require.WithinDuration(t, time.Now(), noted.read, crowdedPatience)
			} else {
				require.Equal(t, later, noted.read)
			}
			require.NoError(t, c.SetReadDeadline(time.Time{}))
			require.Zero(t, noted.read)
		}
		for all.regular.take("somebody") {
		}
	}
	c.kind, c.until = all.spare, time.Now().Add(spareTime)
	for _, given := range []time.Time{later, {}} {
		require.NoError(t, c.SetDeadline(given))
		require.Equal(t, c.until, noted.write)
		require.False(t, noted.read.After(c.until) || noted.read.IsZero())
	}
	require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
	require.Equal(t, time.Unix(1, 0), noted.read)
}

// A place is that of an IPv4 address or of a /64.
func TestNetworks(t *testing.T) {
	all := newConnections(Load{Connections: 2})
	from := func(ip string) bool {
		kind, _ := all.take(&net.TCPAddr{IP: net.ParseIP(ip), Zone: "eth0"})
		return kind == all.regular
	}
	require.True(t, from("2001:db8:1:1::1"))
	require.False(t, from("2001:db8:1:1:ffff::2"))
	require.True(t, from("192.0.2.1"))
	require.Equal(t, 1, all.regular.held["2001:db8:1:1::/64"])
	require.Equal(t, 1, all.regular.held["192.0.2.1/32"])
}

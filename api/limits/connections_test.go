package limits

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines is a net.Conn that records the deadlines set on it.
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

// While few connections are free, a request must arrive within crowdedPatience. A connection beyond
// the limit on connections must finish its response within spareTime.
func TestDeadlinesOfConnections(t *testing.T) {
	all := newConnections(ServerLimits{MaxConnections: 4})
	noted := new(deadlines)
	c := &connection{Conn: noted, all: all, kind: all.Regular}
	later := time.Now().Add(time.Hour)
	for _, crowd := range []bool{false, true} {
		for state, waits := range map[http.ConnState]bool{http.StateNew: true, http.StateIdle: true, http.StateActive: false} {
			OnConnStateChange(c, state)
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
		for all.Regular.take("somebody") {
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

// Connection slots are counted per /32 for IPv4 addresses, and per /64 for IPv6 addresses.
func TestNetworks(t *testing.T) {
	all := newConnections(ServerLimits{MaxConnections: 2})
	from := func(ip string) bool {
		kind, _ := all.take(&net.TCPAddr{IP: net.ParseIP(ip), Zone: "eth0"})
		return kind == all.Regular
	}
	require.True(t, from("2001:db8:1:1::1"))
	require.False(t, from("2001:db8:1:1:ffff::2"))
	require.True(t, from("192.0.2.1"))
	require.Equal(t, 1, all.Regular.held["2001:db8:1:1::/64"])
	require.Equal(t, 1, all.Regular.held["192.0.2.1/32"])
}

package postgres

import (
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
)

// If the URL lists an unresponsive host before the primary, only the first connection waits for
// that host.
func TestSilentHostIsTriedLast(t *testing.T) {
	silentHost, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silentHost.Close()
	var tried atomic.Int32
	go func() {
		for {
			conn, err := silentHost.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			tried.Add(1)
		}
	}()
	proxy := postgrestest.NewProxy(t, postgrestest.SharedServer(t), func() postgrestest.Fault { return postgrestest.FaultNone })
	reached, err := url.Parse(proxy.URL())
	require.NoError(t, err)
	db := openAt(t, proxy.URL("search_path", postgrestest.SharedServer(t).CreateSchema(t), "connect_timeout", "1",
		"host", "127.0.0.1,127.0.0.1", "port", fmt.Sprintf("%d,%s", silentHost.Addr().(*net.TCPAddr).Port, reached.Query().Get("port"))))
	first := tried.Load()
	require.Positive(t, first)
	for _, pool := range []*pgxpool.Pool{db.reads, db.writes} {
		for range pool.Config().MaxConns {
			conn, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
		}
	}
	require.Equal(t, first, tried.Load())
}

// probe returns the error of Probe.
func probe(t *testing.T, url string) error {
	t.Helper()
	_, err := Probe(t.Context(), url)
	return err
}

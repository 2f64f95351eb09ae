package ha_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stalled line holds data back and delivers it after the line is healed. A line that is cut
// closes its connections.
func TestLine(t *testing.T) {
	echo, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	_, port, err := net.SplitHostPort(echo.Addr().String())
	require.NoError(t, err)
	l := newLine(t, port)
	conn, err := net.Dial("tcp4", l.address())
	require.NoError(t, err)
	defer conn.Close()
	buffer := make([]byte, 5)
	exchange := func(text string) {
		t.Helper()
		_, err := conn.Write([]byte(text))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, buffer)
		require.NoError(t, err)
		require.Equal(t, text, string(buffer))
	}
	exchange("first")

	l.stall()
	_, err = conn.Write([]byte("heldu"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = conn.Read(buffer)
	require.ErrorContains(t, err, "timeout")
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
	l.heal()
	_, err = io.ReadFull(conn, buffer)
	require.NoError(t, err)
	require.Equal(t, "heldu", string(buffer))

	l.delay(50 * time.Millisecond)
	began := time.Now()
	exchange("slows")
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)

	l.cut()
	_, err = conn.Read(buffer)
	require.Error(t, err)
	_, err = net.Dial("tcp4", l.address())
	require.Error(t, err)
	l.heal()
	conn, err = net.Dial("tcp4", l.address())
	require.NoError(t, err)
	exchange("again")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	_, err = conn.Read(buffer)
	require.ErrorIs(t, err, io.EOF)
}

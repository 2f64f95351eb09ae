package sockets

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CloseBefore closes ready connections that were begun before the given time. It gives more time to
// connections that are still being opened.
func TestCloseBefore(t *testing.T) {
	set := new(Set)
	dial := set.Track(func(context.Context, string, string) (net.Conn, error) {
		conn, other := net.Pipe()
		t.Cleanup(func() { _ = other.Close() })
		return conn, nil
	})
	opened, err := dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	opening, err := dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	set.MarkReady(opened)

	require.Zero(t, set.CloseBefore(time.Now().Add(-time.Minute)))
	require.Equal(t, 1, set.CloseBefore(time.Now().Add(time.Second)))
	_, err = opened.Write([]byte("x"))
	require.Error(t, err)
	require.NoError(t, opening.SetDeadline(time.Time{}))
	require.Equal(t, 1, set.CloseBefore(time.Now().Add(openTime+time.Second)))
	require.Error(t, opening.SetDeadline(time.Time{}))
	require.Zero(t, set.CloseBefore(time.Now().Add(time.Hour)))
}

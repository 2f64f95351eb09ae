package sockets

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// CloseStartedBefore closes ready connections that were started before the given time. It closes a
// connection that is not ready only if it was started more than openTime before that time.
func TestCloseBefore(t *testing.T) {
	set := New()
	dial := set.WrapDial(func(context.Context, string, string) (net.Conn, error) {
		conn, other := net.Pipe()
		t.Cleanup(func() { _ = other.Close() })
		return conn, nil
	}, 0)
	opened, err := dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	require.NoError(t, set.MarkOpened(opened))
	opening, err := dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	set.MarkReady(opened)

	require.Zero(t, set.CloseStartedBefore(time.Now().Add(-time.Minute)))
	require.Equal(t, 1, set.CloseStartedBefore(time.Now().Add(time.Second)))
	_, err = opened.Write([]byte("x"))
	require.Error(t, err)
	require.NoError(t, opening.SetDeadline(time.Time{}))
	require.Equal(t, 1, set.CloseStartedBefore(time.Now().Add(openTime+time.Second)))
	require.Error(t, opening.SetDeadline(time.Time{}))
	require.Zero(t, set.CloseStartedBefore(time.Now().Add(time.Hour)))
}

// At most maxOpening connections are being opened at the same time. Another connection can be opened once
// the server has accepted one of them, one has failed, or one takes longer than openTime.
func TestConcurrentOpeningsAreLimited(t *testing.T) {
	synctest.Test(t, openOneAfterAnother)
}

func openOneAfterAnother(t *testing.T) {
	set := New()
	unreachable := errors.New("unreachable")
	var failure error
	dial := set.WrapDial(func(context.Context, string, string) (net.Conn, error) {
		if failure != nil {
			return nil, failure
		}
		conn, other := net.Pipe()
		t.Cleanup(func() { _ = other.Close() })
		return conn, nil
	}, 0)
	var opening []net.Conn
	begin := func() {
		t.Helper()
		conn, err := dial(t.Context(), "tcp", "a")
		require.NoError(t, err)
		opening = append(opening, conn)
	}
	for range maxOpening {
		begin()
	}
	refused := func() {
		t.Helper()
		limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := dial(limited, "tcp", "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	refused()
	for range 2 { // the second call has no effect
		require.NoError(t, set.MarkOpened(opening[0]))
	}
	begin()
	refused()
	require.NoError(t, opening[0].Close()) // an accepted connection has already made room
	refused()
	require.NoError(t, opening[1].Close())
	begin()
	refused()
	time.Sleep(openTime)
	for range maxOpening {
		begin()
	}
	refused()
	for _, conn := range opening {
		require.NoError(t, conn.Close())
	}
	failure = unreachable
	for range 2 * maxOpening {
		_, err := dial(t.Context(), "tcp", "a")
		require.ErrorIs(t, err, unreachable)
	}
}

// After a host has accepted a connection, other hosts are not tried until a connection to this host
// has failed.
func TestLastHost(t *testing.T) {
	set := New()
	tried := ""
	dial := set.WrapDial(func(_ context.Context, _, address string) (net.Conn, error) {
		tried += address
		conn, other := net.Pipe()
		t.Cleanup(func() { _ = other.Close() })
		return conn, nil
	}, time.Hour)
	a, err := dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	b, err := dial(t.Context(), "tcp", "b")
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NoError(t, set.MarkOpened(b))
	_, err = dial(t.Context(), "tcp", "a")
	require.ErrorIs(t, err, errOtherHost)
	failed, err := dial(t.Context(), "tcp", "b")
	require.NoError(t, err)
	require.NoError(t, b.Close()) // closing an accepted connection does not count as a failure
	_, err = dial(t.Context(), "tcp", "a")
	require.ErrorIs(t, err, errOtherHost)
	require.NoError(t, failed.Close())
	_, err = dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	require.Equal(t, "abba", tried)
}

// A connection fails if the server is silent for longer than the limit, unless the server has already
// accepted the session.
func TestSilentServer(t *testing.T) {
	set := New()
	conn, other := net.Pipe()
	defer other.Close()
	dial := set.WrapDial(func(context.Context, string, string) (net.Conn, error) { return conn, nil }, time.Millisecond)
	silent, err := dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	_, err = silent.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, set.MarkOpened(silent))
	go func() { _, _ = other.Write([]byte("x")) }()
	_, err = silent.Read(make([]byte, 1))
	require.NoError(t, err)
}

package batch

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

func noFlush() error { return nil }

func roomy() error { return nil }

func TestSpoolKeepsOrder(t *testing.T) {
	dir := t.TempDir()
	space := &limits.SpoolSpace{MaxBytes: 1 << 30}
	s := newSpool(spoolBounds{maxMemory: 100, maxFile: 1 << 30, all: space, dir: dir, room: roomy})
	random := rand.New(rand.NewPCG(1, 2))
	var want, got bytes.Buffer
	done := make(chan error)
	go func() { done <- s.drain(&got, noFlush) }()
	for range 2000 {
		b := bytes.Repeat([]byte{byte(random.IntN(256))}, 1+random.IntN(150))
		want.Write(b)
		require.NoError(t, s.write(b))
	}
	s.finish()
	require.NoError(t, <-done)
	require.Equal(t, want.Bytes(), got.Bytes())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Zero(t, space.TakenBytes.Load())
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestSpoolOfAClientThatIsGone(t *testing.T) {
	dir := t.TempDir()
	space := &limits.SpoolSpace{MaxBytes: 1 << 30}
	s := newSpool(spoolBounds{maxMemory: 10, maxFile: 1 << 30, all: space, dir: dir, room: roomy})
	for range 10 {
		require.NoError(t, s.write([]byte("12345678")))
	}
	require.ErrorIs(t, s.drain(brokenWriter{}, noFlush), errBroken)
	require.NoError(t, s.write([]byte("never read")))
	s.finish()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Zero(t, space.TakenBytes.Load())
}

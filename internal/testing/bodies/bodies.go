// Package bodies makes compressed request bodies, and measures how much memory is allocated to read
// them.
package bodies

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// Gzip compresses each part as a separate gzip member, and returns the concatenated members.
func Gzip(t testing.TB, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, part := range parts {
		z := gzip.NewWriter(&b)
		_, err := io.WriteString(z, part)
		require.NoError(t, err)
		require.NoError(t, z.Close())
	}
	return b.String()
}

// Zstandard compresses each part as a separate frame, and returns the concatenated frames. It
// writes them as streams, so the compression level determines the window size.
func Zstandard(t testing.TB, options []zstd.EOption, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, part := range parts {
		z, err := zstd.NewWriter(&b, options...)
		require.NoError(t, err)
		_, err = io.Copy(z, strings.NewReader(part))
		require.NoError(t, err)
		require.NoError(t, z.Close())
	}
	return b.String()
}

// AllocatedBytes returns the total number of bytes that f allocates.
func AllocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// HoldWithoutLimit grants every memory reservation.
func HoldWithoutLimit(int64) (release func(), err error) { return func() {}, nil }

package batch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

func gzipped(t testing.TB, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, part := range parts { // a member each
		z := gzip.NewWriter(&b)
		_, err := io.WriteString(z, part)
		require.NoError(t, err)
		require.NoError(t, z.Close())
	}
	return b.String()
}

func zstandard(t testing.TB, options []zstd.EOption, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, part := range parts { // a frame each
		z, err := zstd.NewWriter(&b, options...)
		require.NoError(t, err)
		_, err = io.Copy(z, strings.NewReader(part)) // a stream, whose window is that of its level
		require.NoError(t, err)
		require.NoError(t, z.Close())
	}
	return b.String()
}

// allocated returns the bytes that f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// unbounded holds nothing.
func unbounded(int64) (release func(), err error) { return func() {}, nil }

// linesOf reads a compressed body like a batch.
func linesOf(t testing.TB, encoding, body string) (lines []lineSpan) {
	t.Helper()
	open, err := limits.Decompressor(encoding, unbounded)
	require.NoError(t, err)
	memory := limits.NewBudget(1<<30, time.Minute, limits.RefusedMemory, "bodies")
	reader := newLineReader(t.Context(), open, strings.NewReader(body), 8<<20)
	defer reader.close()
	for more := true; more; {
		c := newChunk(memory, limits.Holder{})
		more = reader.fill(c)
		lines = append(lines, c.lines...)
		c.release()
	}
	require.Zero(t, memory.InUse())
	return lines
}

// A body that is as repetitive as records can be passes, however long it is.
func TestRepetitiveBatchesPass(t *testing.T) {
	var text strings.Builder
	for i := 0; text.Len() < limits.FreeExpansion*3/2; i++ {
		fmt.Fprintf(&text, `{"kind":"ipc_record","record":{"run_id":"%d","payload":{"seed":1},"output":"x","model":"m","temperature":0.5,"max_tokens":10}}`+"\n", i)
	}
	body := gzipped(t, text.String())
	lines := linesOf(t, "gzip", body)
	require.NoError(t, lines[len(lines)-1].err, "%d times", text.Len()/len(body))
}

// The window of a frame that claims to be long is not allocated.
func TestZstdWindowsAreNotAllocated(t *testing.T) {
	// A frame that claims a gigabyte in a single segment and has no content.
	huge := binary.LittleEndian.AppendUint64([]byte{0x28, 0xB5, 0x2F, 0xFD, 0xE0}, 1<<30)
	huge = append(huge, 0x01, 0x00, 0x00) // a last block, raw and empty
	var lines []lineSpan
	require.Less(t, allocated(func() { lines = linesOf(t, "zstd", string(huge)) }), uint64(limits.MaxWindow))
	require.Equal(t, http.StatusRequestEntityTooLarge, limits.BodyError(lines[0].err).Status)
}

// The cost of a body is at most in proportion to its length, however it is divided into
// members, frames, and lines.
func TestManyMembers(t *testing.T) {
	tiny := []zstd.EOption{zstd.WithWindowSize(limits.MaxWindow), zstd.WithEncoderConcurrency(1)}
	for name, c := range map[string]struct {
		encoding string
		body     func(n int) string
		each     uint64 // bytes allocated for each member, at most
	}{
		"empty gzip members": {"gzip", func(n int) string { return strings.Repeat(gzipped(t, ""), n) }, 256},
		"gzip members":       {"gzip", func(n int) string { return strings.Repeat(gzipped(t, "{}\n"), n) }, 512},
		"zstd frames":        {"zstd", func(n int) string { return strings.Repeat(zstandard(t, tiny, "{}\n"), n) }, 2048},
		"blank lines":        {"identity", func(n int) string { return strings.Repeat("\n", n) }, 8},
		"blank gzip lines":   {"gzip", func(n int) string { return gzipped(t, strings.Repeat("\n", n)) }, 8},
		"short lines":        {"identity", func(n int) string { return strings.Repeat("x\n", n) }, 512},
	} {
		t.Run(name, func(t *testing.T) {
			once := allocated(func() { linesOf(t, c.encoding, c.body(1)) })
			body := c.body(20_000)
			many := allocated(func() { linesOf(t, c.encoding, body) })
			require.Less(t, many, once+20_000*c.each)
		})
	}
}

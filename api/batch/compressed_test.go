package batch

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"colophon/api/limits"
	"colophon/internal/testing/bodies"
)

// linesOf decompresses body as the batch handler does, and returns its lines.
func linesOf(t testing.TB, encoding, body string) (lines []lineSpan) {
	t.Helper()
	open, err := limits.Decompressor(encoding, bodies.HoldWithoutLimit)
	require.NoError(t, err)
	memory := limits.NewMemoryBudget(1<<30, time.Minute, limits.ReasonBodyMemory, "bodies")
	reader := newLineReader(t.Context(), open, strings.NewReader(body), 8<<20)
	defer reader.close()
	for more := true; more; {
		c := newChunk(memory, limits.Holder{})
		more = reader.fill(c)
		lines = append(lines, c.lines...)
		c.release()
	}
	require.Zero(t, memory.BytesInUse())
	return lines
}

// A long batch of similar records is accepted, although its compression ratio is high.
func TestRepetitiveBatchesPass(t *testing.T) {
	var text strings.Builder
	for i := 0; text.Len() < limits.UncheckedExpansionBytes*3/2; i++ {
		fmt.Fprintf(&text, `{"kind":"ipc_record","record":{"run_id":"%d","payload":{"seed":1},"output":"x","model":"m","temperature":0.5,"max_tokens":10}}`+"\n", i)
	}
	body := bodies.Gzip(t, text.String())
	lines := linesOf(t, "gzip", body)
	require.NoError(t, lines[len(lines)-1].err, "%d times", text.Len()/len(body))
}

// A frame that claims a large size does not make the server allocate a window of that size.
func TestZstdWindowsAreNotAllocated(t *testing.T) {
	// The frame header claims a gigabyte of content in a single segment, but the frame is empty.
	huge := binary.LittleEndian.AppendUint64([]byte{0x28, 0xB5, 0x2F, 0xFD, 0xE0}, 1<<30)
	huge = append(huge, 0x01, 0x00, 0x00) // the last block: raw and empty
	var lines []lineSpan
	require.Less(t, bodies.AllocatedBytes(func() { lines = linesOf(t, "zstd", string(huge)) }), uint64(limits.MaxZstdWindowBytes))
	require.Equal(t, http.StatusRequestEntityTooLarge, limits.BodyRefusal(lines[0].err).Status)
}

// The memory allocated to read a body is at most proportional to its length, however the body is
// divided into gzip members, zstd frames, and lines.
func TestManyMembers(t *testing.T) {
	tiny := []zstd.EOption{zstd.WithWindowSize(limits.MaxZstdWindowBytes), zstd.WithEncoderConcurrency(1)}
	for name, c := range map[string]struct {
		encoding string
		body     func(n int) string
		each     uint64 // maximum number of bytes allocated per member, frame, or line
	}{
		"empty gzip members": {"gzip", func(n int) string { return strings.Repeat(bodies.Gzip(t, ""), n) }, 256},
		"gzip members":       {"gzip", func(n int) string { return strings.Repeat(bodies.Gzip(t, "{}\n"), n) }, 512},
		"zstd frames":        {"zstd", func(n int) string { return strings.Repeat(bodies.Zstandard(t, tiny, "{}\n"), n) }, 2048},
		"blank lines":        {"identity", func(n int) string { return strings.Repeat("\n", n) }, 8},
		"blank gzip lines":   {"gzip", func(n int) string { return bodies.Gzip(t, strings.Repeat("\n", n)) }, 8},
		"short lines":        {"identity", func(n int) string { return strings.Repeat("x\n", n) }, 512},
	} {
		t.Run(name, func(t *testing.T) {
			once := bodies.AllocatedBytes(func() { linesOf(t, c.encoding, c.body(1)) })
			body := c.body(20_000)
			many := bodies.AllocatedBytes(func() { linesOf(t, c.encoding, body) })
			require.Less(t, many, once+20_000*c.each)
		})
	}
}

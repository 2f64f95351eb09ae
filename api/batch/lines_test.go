package batch

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

// FuzzLines checks that a body is split at its line feeds, regardless of how many bytes each read
// returns, and that only a line that is too long becomes a problem.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), uint8(0))
	f.Add([]byte("\n"), uint8(1))
	f.Add([]byte("a\r\n\r\n \t\r\nb\r\n\r"), uint8(0))
	f.Add(bytes.Repeat([]byte("x"), 70_000), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, how uint8) {
		const limit = 100
		reader := io.Reader(bytes.NewReader(body))
		switch how % 3 {
		case 1:
			reader = iotest.OneByteReader(reader)
		case 2:
			reader = iotest.HalfReader(reader)
		}
		open := func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }
		lines := newLineReader(t.Context(), open, reader, limit)
		memory := limits.NewMemoryBudget(1<<30, time.Minute, limits.ReasonBodyMemory, "bodies")
		want := bytes.Split(body, []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1]
		}
		isBlank := func(line []byte) bool { return len(line) <= limit && len(bytes.Trim(line, " \t\r")) == 0 }
		number := 0
		for more := true; more; {
			c := newChunk(memory, limits.Holder{})
			more = lines.fill(c)
			kept := 0
			for _, l := range c.lines {
				for number < len(want) && isBlank(want[number]) {
					number++
				}
				require.Less(t, number, len(want))
				if len(want[number]) > limit {
					require.Error(t, l.err)
				} else {
					require.NoError(t, l.err)
					require.Equal(t, string(want[number]), string(c.buffer[l.start:l.end]))
					kept += len(want[number])
				}
				number++
				require.Equal(t, number, l.number)
			}
			require.Equal(t, memory.BytesInUse(), c.share.Bytes)
			require.GreaterOrEqual(t, c.share.Bytes, int64(kept))
			c.release()
			require.Zero(t, memory.BytesInUse())
		}
		for number < len(want) && isBlank(want[number]) {
			number++
		}
		require.Equal(t, len(want), number)
		lines.close()
	})
}

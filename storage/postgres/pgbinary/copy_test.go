package pgbinary

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// newTestReader returns a reader of n rows. Row i is the number i and i bytes.
func newTestReader(n int) *CopyReader {
	return NewCopyReader(2, n, func(row *Row, i int) {
		row.Bigint(int64(i))
		row.Bytea(bytes.Repeat([]byte{'x'}, i))
	})
}

// The data has the layout that PostgreSQL documents for COPY, whatever the size of the reads.
func TestCopyReader(t *testing.T) {
	for _, rows := range []int{0, 1, 2, 100} {
		want := []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
		for i := range rows {
			want = append(want, 0, 2, 0, 0, 0, 8)
			want = binary.BigEndian.AppendUint64(want, uint64(i))
			want = binary.BigEndian.AppendUint32(want, uint32(i))
			want = append(want, bytes.Repeat([]byte{'x'}, i)...)
		}
		want = append(want, 0xff, 0xff)
		require.NoError(t, iotest.TestReader(newTestReader(rows), want))
		for _, size := range []int{1, 7, 64 << 10} {
			var got bytes.Buffer
			_, err := io.CopyBuffer(&got, struct{ io.Reader }{newTestReader(rows)}, make([]byte, size))
			require.NoError(t, err)
			require.Equal(t, want, got.Bytes())
		}
	}
}

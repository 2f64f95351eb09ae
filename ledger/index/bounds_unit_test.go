package index

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index/rowstore"
)

// timesReader either decodes an arbitrary value completely or reports it as damaged.
func FuzzRecordedTimes(f *testing.F) {
	f.Add(binary.AppendVarint(binary.AppendVarint(nil, 1_700_000_000_000_000), -5))
	f.Add([]byte("nonsense"))
	f.Add(slices.Repeat([]byte{0xff}, 11))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var again []byte
		times, before := timesReader{rest: encoded}, int64(0)
		for len(times.rest) > 0 {
			at, err := times.next()
			if err != nil {
				require.ErrorIs(t, err, rowstore.ErrDamaged)
				return
			}
			require.Equal(t, times.micros, at.UnixMicro())
			again, before = binary.AppendVarint(again, times.micros-before), times.micros
		}
		require.LessOrEqual(t, len(again), len(encoded))
	})
}

// The encodings that AppendTime produces sort in chronological order.
func TestAppendTime(t *testing.T) {
	drawTime := rapid.Custom(func(t *rapid.T) time.Time {
		second := rapid.SampledFrom([]int64{-62167219200, -1, 0, 1, 1 << 40}).Draw(t, "second")
		return time.Unix(second, rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawTime.Draw(t, "a"), drawTime.Draw(t, "b")
		first, second := AppendTime(nil, a), AppendTime(nil, b)
		require.Len(t, first, TimeBytes)
		require.Equal(t, a.Compare(b), bytes.Compare(first, second))
	})
}

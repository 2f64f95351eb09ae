package producers

import (
	"math"
	"testing"

	"colophon/ledger/index/rowstore/rowstoretest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index/rowstore"
)

// The set of numbers, which is stored in blocks, behaves like a map that serves as the model.
func TestNumbersEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, model := make(map[string]block), make(map[uint64]bool)
		row := func(level byte, n uint64) string { return string(blockRow(nil, rowstore.Identity{}, level, n)) }
		read := func(level byte, n uint64) block { return set[row(level, n)] }
		write := func(level byte, n uint64, b *block) {
			decoded, err := decodeBlock(b.append(nil))
			require.NoError(t, err)
			require.Equal(t, *b, decoded)
			set[row(level, n)] = decoded
		}
		begin := rapid.SampledFrom([]uint64{0, 1000, 65000, 1 << 40, math.MaxUint64 - 600}).Draw(t, "begin")
		for range rapid.IntRange(0, 3).Draw(t, "runs") {
			from := begin + rapid.Uint64Range(0, 300).Draw(t, "from")
			for n := from; n < from+rapid.SampledFrom([]uint64{1, 2, 256, 300}).Draw(t, "numbers"); n++ {
				require.Equal(t, !model[n], addNumber(n, read, write))
				model[n] = true
			}
		}
		for range 10 {
			from := begin + rapid.Uint64Range(0, 599).Draw(t, "seek")
			for _, missing := range []bool{true, false} {
				want, found := from, true
				for ; model[want] == missing; want++ {
					if want == begin+700 || want == math.MaxUint64 {
						found = missing && want != math.MaxUint64
						break
					}
				}
				got, ok, err := seekNumber(from, missing, func(level byte, n uint64) (block, error) { return read(level, n), nil })
				require.NoError(t, err)
				require.Equal(t, found, ok)
				if ok {
					require.Equal(t, want, got)
				}
			}
		}
	})
}

// Any value is either reported as damaged or decoded to a state that survives a round trip through
// its encoding.
func FuzzDecodeProducers(f *testing.F) {
	f.Add((&producerState{next: 300, highest: 1 << 62, delivered: 7, repeats: 1, zero: 1}).append(nil))
	f.Add((&block{any: bitmap{1}, all: bitmap{}}).append(nil))
	f.Add([]byte{1, 2, 3})
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		rowstoretest.RequireRoundTrip(t, value, decodeProducerState, func(s producerState) []byte { return s.append(nil) })
		rowstoretest.RequireRoundTrip(t, value, decodeBlock, func(b block) []byte { return b.append(nil) })
	})
}

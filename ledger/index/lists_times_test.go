package index

import (
	"bytes"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Where a time begins in the log is found by few steps, with many events of one
// time and as of any size.
func TestRecordedFrom(t *testing.T) {
	const events = 5*markedEvery + 40
	for _, sameTime := range []uint64{1, 7, 2 * markedEvery, events} {
		log := newJournal(t, "default")
		log.sameTime = sameTime
		log.append(slices.Repeat([]string{foreign("poem", `{}`, `{}`)}, events)...)
		s := openTest(t, testConfig(vfs.NewMem()))
		f := follow(t, s, log)
		log.catchUp(f)
		at := func(seq int) int64 { return int64(uint64(seq) / sameTime) }
		for _, size := range []uint64{1, 2, markedEvery, markedEvery + 1, 3*markedEvery - 1, events} {
			v, err := f.View(size)
			require.NoError(t, err)
			for seq := 0; seq < events; seq += 13 {
				for _, micro := range []int64{at(seq) - 1, at(seq), at(seq) + 1} {
					want := sort.Search(int(size), func(i int) bool { return at(i) >= micro })
					before := v.Touched()
					got, err := v.recordedFrom(time.UnixMicro(micro))
					require.NoError(t, err)
					require.Equal(t, uint64(want), got, "time %d as of %d, %d of one time", micro, size, sameTime)
					require.LessOrEqual(t, v.Touched()-before, 2)
				}
			}
			require.NoError(t, v.Close())
		}
		require.NoError(t, s.Close())
	}
}

// Times are ordered in keys as they are.
func TestAppendTime(t *testing.T) {
	drawTime := rapid.Custom(func(t *rapid.T) time.Time {
		second := rapid.SampledFrom([]int64{-62167219200, -1, 0, 1, 1 << 40}).Draw(t, "second")
		return time.Unix(second, rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawTime.Draw(t, "a"), drawTime.Draw(t, "b")
		first, second := appendTime(nil, a), appendTime(nil, b)
		require.Len(t, first, timeBytes)
		require.Equal(t, a.Compare(b), bytes.Compare(first, second))
	})
}

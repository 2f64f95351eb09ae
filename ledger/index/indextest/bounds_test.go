package indextest

import (
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
)

// timeBlockEvents is the number of events whose times share one key, as in package index.
const timeBlockEvents = 64

// firstSince returns the first event that was recorded at the given time or later.
func firstSince(v *index.View, at time.Time) (uint64, error) {
	from, _, err := v.SeqRange(index.TimeRange{Since: &at})
	return from, err
}

// Finding the first event at or after a time reads at most two keys, at any log size and even if
// many events share that time.
func TestRecordedFrom(t *testing.T) {
	const events = 5*timeBlockEvents + 40
	for _, sameTime := range []uint64{1, 7, 2 * timeBlockEvents, events} {
		log := newJournal(t, "default")
		log.sameTime = sameTime
		log.append(slices.Repeat([]string{rawBody("poem", `{}`, `{}`)}, events)...)
		s := openTest(t, testConfig(vfs.NewMem()))
		f := follow(t, s, log)
		log.catchUp(f)
		at := func(seq int) int64 { return int64(uint64(seq) / sameTime) }
		for _, size := range []uint64{1, 2, timeBlockEvents, timeBlockEvents + 1, 3*timeBlockEvents - 1, events} {
			v, err := f.View(size)
			require.NoError(t, err)
			for seq := 0; seq < events; seq += 13 {
				for _, micro := range []int64{at(seq) - 1, at(seq), at(seq) + 1} {
					want := sort.Search(int(size), func(i int) bool { return at(i) >= micro })
					before := v.KeysRead()
					got, err := firstSince(v, time.UnixMicro(micro))
					require.NoError(t, err)
					require.Equal(t, uint64(want), got, "time %d as of %d, %d of one time", micro, size, sameTime)
					require.LessOrEqual(t, v.KeysRead()-before, 2)
				}
			}
			require.NoError(t, v.Close())
		}
		require.NoError(t, s.Close())
	}
}

package indextest

import (
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index/rowstore"
)

// RecordedAt returns the time of every event, regardless of where folds begin and end.
func TestRecordedAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files, log := vfs.NewMem(), newJournal(t, "default")
		log.sameTime = rapid.Uint64Range(1, 3).Draw(t, "same time")
		for range rapid.IntRange(1, 6).Draw(t, "starts") {
			c := testConfig(files)
			c.MaxBatchEvents = rapid.IntRange(1, 2*timeBlockEvents).Draw(t, "events of a batch")
			s := openTest(t, c)
			f := follow(t, s, log)
			for range rapid.IntRange(1, 3).Draw(t, "commits") {
				log.append(slices.Repeat([]string{rawBody("poem", `{}`, `{}`)}, rapid.IntRange(1, 90).Draw(t, "events"))...)
				log.catchUp(f)
			}
			v, err := f.LatestView()
			require.NoError(t, err)
			for seq := range v.Size() {
				at, err := v.RecordedAt(seq)
				require.NoError(t, err)
				require.Equal(t, time.UnixMicro(int64(seq/log.sameTime)).UTC(), at, "event %d of %d", seq, v.Size())
			}
			_, err = v.RecordedAt(v.Size())
			require.ErrorIs(t, err, rowstore.ErrDamaged, "an event that is not folded has no time")
			require.NoError(t, v.Close())
			require.NoError(t, s.Close())
		}
	})
}

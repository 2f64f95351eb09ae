package index

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// entriesFrom returns entries of the given size that begin with their seq.
func entriesFrom(first uint64, count, size int) (entries [][]byte) {
	for i := range count {
		entries = append(entries, binary.BigEndian.AppendUint64(make([]byte, 0, size), first+uint64(i))[:size])
	}
	return entries
}

// advanceTo returns only the entry that was added at the seq, and memory stays within the limits.
func TestRecentEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const total = 3 * maxRecentBytes / 2
		var left atomic.Int64
		left.Store(total)
		logs := []*recentEntries{{bytesLeft: &left}, {bytesLeft: &left}}
		heads := make([]uint64, len(logs))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(logs)-1).Draw(t, "log")
			n := logs[i]
			if rapid.Bool().Draw(t, "advance") {
				seq := rapid.Uint64Range(0, heads[i]).Draw(t, "seq")
				if entry, found := n.advanceTo(seq); found {
					require.Equal(t, seq, binary.BigEndian.Uint64(entry))
				}
			} else {
				heads[i] += uint64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "gap"))
				count := rapid.IntRange(1, 10).Draw(t, "count")
				n.add(heads[i], entriesFrom(heads[i], count, rapid.SampledFrom([]int{8, 1 << 20, maxRecentBytes/8 - 1}).Draw(t, "size")))
				heads[i] += uint64(count)
			}
			used := int64(0)
			for _, n := range logs {
				own := int64(0)
				for _, entry := range n.entries {
					own += int64(len(entry))
				}
				require.Equal(t, own, n.bytes)
				require.LessOrEqual(t, own, int64(maxRecentBytes))
				used += own
			}
			require.Equal(t, total-used, left.Load())
			require.LessOrEqual(t, used, int64(total))
		}
		for _, n := range logs {
			n.close()
			n.add(n.first, entriesFrom(n.first, 1, 8))
			_, found := n.advanceTo(n.first)
			require.False(t, found, "found an entry after close")
		}
		require.Equal(t, int64(total), left.Load())
	})
}

// Entries are found in the order of the log, across commits.
func TestRecentEntriesInOrder(t *testing.T) {
	var left atomic.Int64
	left.Store(maxTotalRecentBytes)
	n := recentEntries{bytesLeft: &left}
	n.add(5, entriesFrom(5, 3, 8))
	n.add(8, entriesFrom(8, 2, 8))
	_, found := n.advanceTo(4)
	require.False(t, found)
	for seq := uint64(5); seq < 10; seq++ {
		entry, found := n.advanceTo(seq)
		require.True(t, found)
		require.Equal(t, seq, binary.BigEndian.Uint64(entry))
		again, found := n.advanceTo(seq)
		require.True(t, found)
		require.Equal(t, entry, again)
	}
	n.add(11, entriesFrom(11, 3, 8))
	_, found = n.advanceTo(10)
	require.False(t, found, "found an entry that was never added")
	entry, found := n.advanceTo(13)
	require.True(t, found)
	require.Equal(t, uint64(13), binary.BigEndian.Uint64(entry))
	_, found = n.advanceTo(14)
	require.False(t, found)
	require.Equal(t, int64(maxTotalRecentBytes), left.Load(), "advanceTo has dropped all entries")
}

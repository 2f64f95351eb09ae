package indextest

import (
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// garble overwrites every posting with a value that no fold would write.
func garble(t *testing.T, s *index.Store) {
	t.Helper()
	first := testKeys.AppendPrefix(nil, records.PostingsDimension)
	it, err := s.RowStore().DB().NewIter(&engine.IterOptions{LowerBound: first, UpperBound: testKeys.AppendPrefix(nil, records.PostingsDimension+1)})
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		require.NoError(t, s.RowStore().DB().Set(append([]byte(nil), it.Key()...), []byte{4}, engine.NoSync))
	}
	require.NoError(t, it.Close())
}

// When a follower finds damage, the whole index is rebuilt, including the rows of other
// ledgers. The rebuild waits until existing views are closed. During that time no view can be
// opened.
func TestDamagedIndexIsRebuilt(t *testing.T) {
	log, beside := newJournal(t, "default"), newJournal(t, "beside")
	log.append(plains(t, 0, 50)...)
	beside.append(plains(t, 50, 90)...)
	files := vfs.NewMem()
	s := openTest(t, testConfig(files))
	f, other := follow(t, s, log), follow(t, s, beside)
	log.catchUp(f)
	beside.catchUp(other)
	v, err := other.LatestView()
	require.NoError(t, err)
	f.Close() // discards the rows that the follower has cached
	garble(t, s)
	f = follow(t, s, log)
	log.append(plains(t, 50, 60)...)
	f.Wake()
	for s.RowStore().CheckAvailable() == nil {
		require.NoError(t, f.Err())
	}
	require.ErrorIs(t, s.RowStore().CheckAvailable(), index.ErrRebuilding)
	_, err = f.LatestView()
	require.ErrorIs(t, err, index.ErrRebuilding)
	_, err = f.FindByHash(t.Context(), log.hashes[0], 0)
	require.ErrorIs(t, err, index.ErrRebuilding)
	_, found, err := groups.Get(t.Context(), v, groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, AnyState: false})
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, v.Close())

	s.RowStore().WaitForRebuild()
	require.Equal(t, 1, s.RebuildCount())
	log.catchUp(f)
	beside.catchUp(other)
	log.check(f)
	beside.check(other)
	v, err = f.View(log.head.Size)
	require.NoError(t, err)
	require.NoError(t, v.Close())
	require.NoError(t, f.Err())
	require.Equal(t, index.Layout, string(read(t, files, "index/LAYOUT")), "the next start need not rebuild it")
	require.NoError(t, s.Close())
}

// If damage is found a second time, the follower stops, because the disk may be faulty.
func TestSecondDamageStopsTheFollower(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 50)...)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	require.True(t, s.RowStore().ReportDamage(rowstore.ErrDamaged, 0))
	s.RowStore().WaitForRebuild()
	log.catchUp(f)
	f.Close()
	garble(t, s)
	log.append(plains(t, 50, 60)...)
	f = follow(t, s, log)
	require.ErrorIs(t, f.WaitForSize(t.Context(), log.head.Size), rowstore.ErrDamaged)
	require.ErrorIs(t, f.Err(), rowstore.ErrDamaged)
	require.Equal(t, 1, s.RebuildCount())
	require.True(t, s.RowStore().ReportDamage(rowstore.ErrDamaged, 0), "the damage was in the previous index")
	require.NoError(t, s.RowStore().CheckAvailable())
	require.False(t, s.RowStore().ReportDamage(rowstore.ErrDamaged, 1))
	require.NoError(t, s.Close())
}

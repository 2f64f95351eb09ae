package rowstore

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// FuzzVersionRun checks that arbitrary bytes are either reported as damaged or decoded to versions
// that survive encoding and decoding.
func FuzzVersionRun(f *testing.F) {
	f.Add(uint64(7), modelRun{{7, []byte("one")}, {9, nil}, {1000, []byte("three")}}.encode())
	f.Add(uint64(0), []byte{0})
	f.Add(uint64(1), []byte{9, 'x'})
	f.Add(uint64(1), []byte{})
	f.Fuzz(func(t *testing.T, first uint64, encoded []byte) {
		var versions modelRun
		s := openRun(first, encoded)
		for more := s.err == nil; more; more = s.next() {
			versions = append(versions, s.Version)
		}
		if s.err != nil {
			require.ErrorIs(t, s.err, ErrDamaged)
			return
		}
		again := openRun(first, versions.encode())
		for _, v := range versions {
			require.Equal(t, v.Seq, again.Seq)
			require.Equal(t, string(v.Value), string(again.Value))
			again.next()
		}
		require.NoError(t, again.err)
		require.Equal(t, len(again.encoded), again.end)
	})
}

// rowsUnderTest writes versions of a few rows and keeps a copy of them.
type rowsUnderTest struct {
	rows Writer
	keys Keyspace
	all  map[byte][]Version // newest last
}

// write writes random versions from one event.
func (u *rowsUnderTest) write(t *rapid.T, seq uint64) {
	for range rapid.IntRange(0, 3).Draw(t, "versions") {
		name := rapid.SampledFrom([]byte{1, 2, 3, 4}).Draw(t, "row")
		id := Identity{name}
		value := rapid.SliceOfN(rapid.Byte(), 0, 90).Draw(t, "value")
		at, newest, found := u.rows.NewestVersion(testPlain, id[:])
		before := u.all[name]
		require.Equal(t, len(before) > 0, found)
		if found {
			require.Equal(t, before[len(before)-1].Seq, at)
			require.Equal(t, string(before[len(before)-1].Value), string(newest))
		}
		if found && at == seq {
			before = before[:len(before)-1]
			u.rows.Put(testPlain, id[:], seq, value)
		} else if rapid.IntRange(0, 5).Draw(t, "how") == 0 {
			u.rows.PutFirst(testPlain, id[:], seq, value)
		} else {
			u.rows.Put(testPlain, id[:], seq, value)
		}
		u.all[name] = append(before[:len(before):len(before)], Version{seq, slices.Clone(value)})
	}
}

// between returns the versions of a row whose seq is at least from and less than below.
func (u *rowsUnderTest) between(name byte, from, below uint64) []Version {
	var some []Version
	for _, r := range u.all[name] {
		if r.Seq >= from && r.Seq < below {
			some = append(some, r)
		}
	}
	return some
}

// A reader returns exactly the versions that batches wrote, for any size, direction, and position.
// It does not matter which versions share a key or when the cache drops rows.
func TestVersionsEqualModel(t *testing.T) {
	s := openTestRows(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close(nil)) }()
	number := uint16(0)
	rapid.Check(t, func(t *rapid.T) {
		number++
		u := rowsUnderTest{keys: KeyspaceFromNumber(number), all: make(map[byte][]Version)}
		u.rows = Writer{engine: s.engine, Keyspace: u.keys}
		seq := uint64(0)
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			u.rows.BeginBatch(Limits{BatchBytes: 1 << 20, RowCacheBytes: rapid.SampledFrom([]int{0, 1 << 10, 1 << 20}).Draw(t, "kept")})
			for range rapid.IntRange(0, 30).Draw(t, "events") {
				seq += rapid.SampledFrom([]uint64{1, 1, 1, 2, 1000}).Draw(t, "distance")
				u.write(t, seq)
			}
			batch := u.rows.TakeBatch()
			require.Zero(t, u.rows.waiting)
			require.NoError(t, batch.Commit())
			require.NoError(t, u.rows.EndBatch())
		}
		v := &Reader{Keyspace: u.keys, snapshot: s.engine.NewSnapshot(), size: rapid.Uint64Range(0, seq+1).Draw(t, "size")}
		defer func() { require.NoError(t, v.Close()) }()
		for name := range byte(5) {
			u.check(t, v, name)
		}
	})
}

// check compares the versions of a row that a reader sees with those that were written.
func (u *rowsUnderTest) check(t *rapid.T, v *Reader, name byte) {
	id := Identity{name}
	at := rapid.Uint64Range(0, v.Size()).Draw(t, "at")
	want := u.between(name, 0, at)
	seq, value, found, err := v.NewestVersionBelow(testPlain, id[:], at)
	require.NoError(t, err)
	require.Equal(t, len(want) > 0, found)
	if found {
		require.Equal(t, want[len(want)-1].Seq, seq)
		require.Equal(t, string(want[len(want)-1].Value), string(value))
	}
	i := len(want)
	for r, err := range v.VersionsNewestFirst(testPlain, id[:], at) {
		require.NoError(t, err)
		i--
		require.Equal(t, want[i].Seq, r.Seq)
		require.Equal(t, string(want[i].Value), string(r.Value))
	}
	require.Zero(t, i)
	want = u.between(name, at, v.Size())
	for r, err := range v.VersionsOldestFirst(testPlain, id[:], at) {
		require.NoError(t, err)
		require.Equal(t, want[i].Seq, r.Seq)
		require.Equal(t, string(want[i].Value), string(r.Value))
		i++
	}
	require.Len(t, want, i)
	walk := v.NewVersionSeeker(testPlain, id[:])
	for at < v.Size() && at > 0 {
		want := u.between(name, 0, at+1)
		r, ok, err := walk.Seek(at)
		require.NoError(t, err)
		require.Equal(t, len(want) > 0, ok)
		if !ok {
			break
		}
		require.Equal(t, want[len(want)-1].Seq, r.Seq)
		at = r.Seq - min(r.Seq, rapid.Uint64Range(0, 40).Draw(t, "down"))
	}
	require.NoError(t, walk.Close())
}

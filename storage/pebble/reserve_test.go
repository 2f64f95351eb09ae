package pebble

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/internal/disk"
)

func TestWritable(t *testing.T) {
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	require.NoError(t, l.CheckWritable(t.Context()), "a file system that does not report its free space")
	const mebibyte, gibibyte = 1 << 20, 1 << 30
	for _, c := range []struct {
		free, total, mark uint64
		want              string
	}{
		{free: gibibyte, total: 100 * gibibyte},
		{free: gibibyte - 1, total: 100 * gibibyte, want: "1023 MiB are free, but 1024 MiB are needed"},
		{free: 32 * mebibyte, total: 500 * mebibyte},
		{free: 12*mebibyte + 5, total: 500 * mebibyte, want: "12 MiB are free, but 32 MiB are needed"},
		{free: 511 * mebibyte, total: 10 * gibibyte, want: "511 MiB are free, but 512 MiB are needed"},
		{free: 512 * mebibyte, total: 10 * gibibyte},
		{free: 12 * mebibyte, total: gibibyte, mark: 48*mebibyte - 1, want: "12 MiB are free, but 48 MiB are needed"},
		{free: 12 * mebibyte, total: 100 * gibibyte, mark: 1},
	} {
		db.space.MinFreeBytes = c.mark
		files.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: c.free, TotalBytes: c.total})
		err := l.CheckWritable(t.Context())
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, storage.ErrNoSpace)
		require.ErrorContains(t, err, c.want)
		require.ErrorIs(t, db.Copy(t.Context(), "copy"), storage.ErrNoSpace)
	}
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1, 1)), "Commit does not check free space")
}

type brokenFS struct{ vfs.FS }

var errBroken = errors.New("broken")

func (brokenFS) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, errBroken }

func TestWritableWithoutAnswer(t *testing.T) {
	_, l := newLedger(t, brokenFS{vfs.NewMem()})
	err := l.CheckWritable(t.Context())
	require.ErrorIs(t, err, errBroken)
	require.NotErrorIs(t, err, storage.ErrNoSpace)
}

// lowFS reports little free space while low is set.
type lowFS struct {
	vfs.FS
	low      atomic.Bool
	requests chan struct{} // unless full, receives an item on each call to GetDiskUsage while low is set
	compacts atomic.Int64  // number of tables created by compactions while low was set
}

func newLowFS() *lowFS { return &lowFS{FS: vfs.NewMem(), requests: make(chan struct{}, 4)} }

func (l *lowFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if !l.low.Load() {
		return vfs.DiskUsage{AvailBytes: disk.MaxReserveBytes, TotalBytes: 20 * disk.MaxReserveBytes}, nil
	}
	select {
	case l.requests <- struct{}{}:
	default:
	}
	return vfs.DiskUsage{AvailBytes: 1, TotalBytes: 20 * disk.MaxReserveBytes}, nil
}

func (l *lowFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == disk.CompactionCategory && l.low.Load() {
		l.compacts.Add(1)
	}
	return l.FS.Create(name, category)
}

// waiting creates a database in which a compaction waits for free space.
func waiting(t *testing.T) (*lowFS, *Database, *ledger) {
	files := newLowFS()
	db, l := newLedger(t, files)
	files.low.Store(true)
	var head storage.Head
	for range 8 {
		b := batch(head, 1, 100)
		require.NoError(t, l.Commit(t.Context(), head, b))
		require.NoError(t, db.engine.Flush(), "a flush does not wait for space")
		head = b.Head
	}
	<-files.requests
	return files, db, l
}

func TestCompactionLeavesTheReserve(t *testing.T) {
	files, db, l := waiting(t)
	require.Zero(t, files.compacts.Load())
	files.low.Store(false)
	require.NoError(t, db.engine.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	m, err := db.Metrics()
	require.NoError(t, err)
	require.Positive(t, m.Compactions)
	require.Len(t, readEntries(t, l), 8)
	require.Zero(t, files.compacts.Load())
}

func TestCloseEndsTheWaitForSpace(t *testing.T) {
	files, db, _ := waiting(t)
	require.NoError(t, db.Close())
	_, err := Open(t.Context(), testConfig(files))
	require.ErrorIs(t, err, storage.ErrNoSpace, "otherwise the engine would retry forever to flush its log")
	files.low.Store(false)
	again := openOn(t, files)
	store, err := again.Ledger(t.Context(), "default")
	require.NoError(t, err)
	require.Len(t, readEntries(t, store), 8)
	require.Zero(t, files.compacts.Load())
	require.NoError(t, again.Close())
}

func readEntries(t *testing.T, r storage.Reader) []uint64 {
	var seqs []uint64
	for e, err := range r.Entries(t.Context(), 0) {
		require.NoError(t, err)
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

// With Config.ReadOnlyWhenFull, Open opens a database on a full disk for reading only. Every commit
// can be read, no file changes, and every write is refused.
func TestReadWhenFull(t *testing.T) {
	files, db, _ := waiting(t)
	store, err := db.Ledger(t.Context(), "default")
	require.NoError(t, err)
	old, err := store.Head(t.Context())
	require.NoError(t, err)
	last := batch(old, 1, 100) // this batch is only in the write-ahead log
	require.NoError(t, store.Commit(t.Context(), old, last))
	require.NoError(t, db.Close())
	before, err := files.List(testConfig(files).Dir)
	require.NoError(t, err)

	config := testConfig(files)
	config.ReadOnlyWhenFull = true
	full, err := Open(t.Context(), config)
	require.NoError(t, err)
	require.True(t, full.ForcedReadOnly())
	require.ErrorIs(t, full.CheckSpace(), storage.ErrNoSpace)
	files.low.Store(false)
	require.NoError(t, full.CheckSpace())
	l, err := full.Ledger(t.Context(), "default")
	require.NoError(t, err)
	require.Len(t, readEntries(t, l), 9)
	for name, write := range map[string]func() error{
		"Writable":   func() error { return l.CheckWritable(t.Context()) },
		"Commit":     func() error { return l.Commit(t.Context(), last.Head, batch(last.Head, 1, 1)) },
		"Freeze":     func() error { return l.Freeze(t.Context()) },
		"SetSetting": func() error { return l.SetSetting(t.Context(), "a", nil) },
		"Copy":       func() error { return full.Copy(t.Context(), "copy") },
		"Create": func() error {
			_, err := full.CreateLedger(t.Context(), storage.LedgerInfo{Name: "b"})
			return err
		},
	} {
		require.ErrorIs(t, write(), storage.ErrNoSpace, name)
	}
	_, err = full.Metrics()
	require.NoError(t, err)
	_, err = full.PendingErasures(t.Context())
	require.NoError(t, err)
	require.NoError(t, full.Close())
	after, err := files.List(testConfig(files).Dir)
	require.NoError(t, err)
	require.ElementsMatch(t, before, after, "nothing was written")

	again, err := Open(t.Context(), config)
	require.NoError(t, err)
	require.False(t, again.ForcedReadOnly())
	require.NoError(t, again.Close())

	files.low.Store(true)
	config.Dir = "none"
	_, err = Open(t.Context(), config)
	require.ErrorIs(t, err, storage.ErrNoSpace, "there is no database to read")
}

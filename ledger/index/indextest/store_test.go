package indextest

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"colophon/internal/enginelog"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/query"
)

// closedIndex builds the index of a log, closes it, and returns its files.
func closedIndex(t *testing.T, log *journal) *vfs.MemFS {
	t.Helper()
	files := vfs.NewMem()
	s := openTest(t, testConfig(files))
	log.catchUp(follow(t, s, log))
	require.NoError(t, s.Close())
	return files
}

func TestOpenOnDisk(t *testing.T) {
	dir := t.TempDir() + "/data/index"
	log := newJournal(t, "default")
	log.append(plains(t, 0, 10)...)
	for range 2 {
		s, err := query.OpenIndex(index.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		f := follow(t, s, log)
		log.catchUp(f)
		log.check(f)
		_, err = query.OpenIndex(index.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
		require.Error(t, err, "the index is in use")
		require.NoError(t, s.Close())
	}
}

// After a restart, a follower continues from the cursor and does not read the log from its
// beginning.
func TestRestartDoesNotRefold(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 50)...)
	s := openTest(t, testConfig(closedIndex(t, log)))
	w := &watched{Reader: log.store}
	f, err := s.Follow(log.name, w)
	require.NoError(t, err)
	require.Equal(t, uint64(50), f.Size())
	log.append(plain(t, 50))
	log.catchUp(f)
	log.check(f)
	require.NoError(t, s.Close())
	require.Equal(t, uint64(50), slices.Min(w.from))
}

func TestAnotherLayoutIsEmptied(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 20)...)
	files := closedIndex(t, log)
	c := testConfig(files)
	poison := rowstore.AppendSeq(append(testKeys.AppendPrefix(nil, 0x03), 7, 0, 0, 0, 0, 0), 3) // only a rebuild removes this row
	s := openTest(t, c)
	require.NoError(t, s.RowStore().DB().Set(poison, nil, engine.NoSync))
	require.NoError(t, s.Close())

	s = openTest(t, c)
	require.True(t, holds(t, s, poison), "an index with the same layout is kept")
	require.NoError(t, s.Close())

	overwrite(t, files, "index/LAYOUT", []byte("colophon index, layout 0\n"))
	var messages bytes.Buffer
	c.RowStore.Logger = slog.New(slog.NewTextHandler(&messages, nil))
	s = openTest(t, c)
	require.Contains(t, messages.String(), "rebuilding it")
	requireEvents(t, s, 0)
	f := follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	require.False(t, holds(t, s, poison))
	requireEvents(t, s, 20)
	require.NoError(t, s.Close())
	require.Equal(t, index.Layout, string(read(t, files, "index/LAYOUT")))
}

// holds reports whether a key is stored.
func holds(t *testing.T, s *index.Store, key []byte) bool {
	t.Helper()
	it, err := s.RowStore().NewIterator(key, append(key[:len(key):len(key)], 0))
	require.NoError(t, err)
	found := it.First()
	require.NoError(t, errors.Join(it.Err(), it.Close()))
	return found
}

func TestForeignFolderIsRefused(t *testing.T) {
	files := vfs.NewMem()
	require.NoError(t, files.MkdirAll("index", 0o700))
	c := testConfig(files)
	foreign, err := engine.Open("index", &engine.Options{FS: files, Logger: enginelog.New(c.RowStore.Logger, "", func(string) {})})
	require.NoError(t, err)
	require.NoError(t, foreign.Set([]byte("k"), []byte("v"), engine.Sync))
	require.NoError(t, foreign.Close())
	before, err := files.List("index")
	require.NoError(t, err)

	_, err = index.OpenResolved(c)
	require.ErrorContains(t, err, "contains no index")
	after, err := files.List("index")
	require.NoError(t, err)
	require.ElementsMatch(t, before, after)
}

// If any file of the index is damaged, the index still opens and never gives a wrong answer. At
// worst, a query fails and the index is rebuilt.
func TestDamage(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 500)...)
	whole := func() *vfs.MemFS {
		files := vfs.NewMem()
		c := testConfig(files)
		s := openTest(t, c)
		log.catchUp(follow(t, s, log))
		require.NoError(t, s.RowStore().DB().Flush())
		require.NoError(t, s.Close())
		return files
	}
	names, err := whole().List("index")
	require.NoError(t, err)
	damages := map[string]func(files vfs.FS, path string, content []byte){
		"deleted":   func(files vfs.FS, path string, _ []byte) { require.NoError(t, files.Remove(path)) },
		"truncated": func(files vfs.FS, path string, content []byte) { overwrite(t, files, path, content[:len(content)/2]) },
		"emptied":   func(files vfs.FS, path string, _ []byte) { overwrite(t, files, path, nil) },
		"garbled": func(files vfs.FS, path string, content []byte) {
			for i := range content {
				if i%61 == 0 {
					content[i] ^= 0x55
				}
			}
			overwrite(t, files, path, content)
		},
	}
	for what, damage := range damages {
		for _, name := range names {
			if name == "LOCK" || name == "LAYOUT" && what == "deleted" {
				continue
			}
			t.Run(name+" "+what, func(t *testing.T) {
				files := whole()
				damage(files, files.PathJoin("index", name), read(t, files, "index/"+name))
				requireSound(t, files, log)
			})
		}
	}
}

// If an index cannot be opened because of a fault outside the index, such as too many open files,
// it is kept.
func TestOpenFailsWithoutDamage(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 20)...)
	files := closedIndex(t, log)
	_, err := index.OpenResolved(testConfig(errorfs.Wrap(files, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpOpen && strings.Contains(op.Path, "MANIFEST") {
			return &fs.PathError{Op: "open", Path: op.Path, Err: syscall.EMFILE}
		}
		return nil
	}))))
	require.ErrorIs(t, err, syscall.EMFILE)
	s := openTest(t, testConfig(files))
	requireEvents(t, s, 20)
	require.NoError(t, s.Close())
}

// requireSound opens an index twice. The first time, every answer must be right until a query
// reports damage; the index must then be rebuilt completely. The second time, every query must
// succeed.
func requireSound(t *testing.T, files *vfs.MemFS, log *journal) {
	t.Helper()
	s := openTest(t, testConfig(files))
	f := follow(t, s, log)
	require.NoError(t, f.WaitForSize(t.Context(), log.head.Size))
	for seq, hash := range log.hashes {
		found, err := f.FindByHash(t.Context(), hash, 0)
		if err != nil {
			require.True(t, engine.IsCorruptionError(err), "%v", err)
			require.Equal(t, 1, s.RebuildCount())
			break
		}
		require.Equal(t, uint64(seq), found)
	}
	s.RowStore().WaitForRebuild()
	log.catchUp(f)
	log.check(f)
	requireSame(t, log.refold(), dump(t, s))
	require.NoError(t, s.Close())

	s = openTest(t, testConfig(files))
	f = follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	require.NoError(t, s.Close())
}

func read(t *testing.T, files *vfs.MemFS, path string) []byte {
	t.Helper()
	content, err := files.UnsafeGetFileDataBuffer(path)
	require.NoError(t, err)
	return bytes.Clone(content)
}

func overwrite(t *testing.T, files vfs.FS, path string, content []byte) {
	t.Helper()
	file, err := files.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = file.Write(content)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// A failed write stops the process. If the process continued, the engine could lose some writes and
// keep later ones.
func TestFailedWriteEndsTheProcess(t *testing.T) {
	var broken atomic.Bool
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, "MANIFEST") {
			return errorfs.ErrInjected
		}
		return nil
	}))
	ended := make(chan int, 1)
	c := testConfig(files)
	c.RowStore.Exit = func(status int) {
		ended <- status
		runtime.Goexit()
	}
	log := newJournal(t, "default")
	log.append(plain(t, 0))
	s := openTest(t, c)
	log.catchUp(follow(t, s, log))
	broken.Store(true)
	_, err := s.RowStore().DB().AsyncFlush()
	require.NoError(t, err)
	require.Equal(t, 1, <-ended)
}

// lines is a writer that sends log lines to a channel.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// The fold stops while the disk is full. It continues once there is space and a reader is waiting.
func TestFullDisk(t *testing.T) {
	files := vfs.NewMem()
	log := newJournal(t, "default")
	log.append(plains(t, 0, 5)...)
	warned := make(lines, 10)
	c := testConfig(files)
	c.RowStore.Logger = slog.New(slog.NewTextHandler(warned, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := openTest(t, c)
	files.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: rowstore.MinFreeBytes - 1, TotalBytes: 1 << 40})
	f, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, f.CatchUp(t.Context()))
		require.Zero(t, f.Size())
	}
	require.Contains(t, <-warned, "nearly full")
	require.Empty(t, warned, "warned once")
	f.Close()

	f = follow(t, s, log)
	require.Contains(t, <-warned, "nearly full")
	require.NoError(t, f.Err())
	files.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: rowstore.MinFreeBytes, TotalBytes: 1 << 40})
	require.NoError(t, f.WaitForSize(t.Context(), 5))
	log.check(f)
	require.NoError(t, s.Close())
}

package pebble

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/internal/disk"
	"colophon/storage/pebble/internal/erase"
)

// marked creates a database whose last level contains redacted secrets that have not been erased
// yet. Its eraser is stopped, so that the test can call ErasePending itself.
func marked(t *testing.T, files vfs.FS) (*Database, *ledger, *secrets) {
	db, l := newLedger(t, files)
	db.eraser.Stop()
	s := newSecrets(1)
	head := storage.Head{Size: 2, Tip: digestOf(1)}
	b := storage.Batch{Head: head, Entries: [][]byte{{0}, {1}}, Contents: append(slices.Clone(s.contents), keptContent(1))}
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, b))
	require.NoError(t, db.engine.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	b = storage.Batch{
		Head: storage.Head{Size: 3, Tip: digestOf(2), TimeMicros: 1_000_001}, Entries: [][]byte{{2}},
		Redactions: []storage.Redaction{s.redaction(2)},
	}
	require.NoError(t, l.Commit(t.Context(), head, b))
	return db, l, s
}

func pending(t *testing.T, db *Database) int {
	t.Helper()
	e, err := db.PendingErasures(t.Context())
	require.NoError(t, err)
	return e.Count
}

func requireNowhere(t *testing.T, s *secrets, files vfs.FS) {
	t.Helper()
	found, err := s.found(t.Context(), files, testDir)
	require.NoError(t, err)
	require.Equal(t, make([][]string, len(s.needles)), found)
}

func TestErasing(t *testing.T) {
	db, _, s := marked(t, vfs.NewMem())
	e, err := db.PendingErasures(t.Context())
	require.NoError(t, err)
	require.Equal(t, PendingErasures{Count: 3, OldestTime: time.UnixMicro(1_000_001).UTC()}, e)
	m, err := db.Metrics()
	require.NoError(t, err)
	require.Equal(t, e, m.PendingErasures)
	worked, err := db.eraser.ErasePending(t.Context())
	require.NoError(t, err)
	require.True(t, worked)
	e, err = db.PendingErasures(t.Context())
	require.NoError(t, err)
	require.Zero(t, e)
	requireNowhere(t, s, db.space.FS)
	worked, err = db.eraser.ErasePending(t.Context())
	require.NoError(t, err)
	require.False(t, worked)
}

// An erasure stays pending as long as Config.RemoveUnusedCopies returns an error.
func TestErasingWaitsForCopies(t *testing.T) {
	db, _, s := marked(t, vfs.NewMem())
	held, calls := errors.New("the copy is in use"), 0
	db.eraser.Config.RemoveUnusedCopies = func() error {
		calls++
		return held
	}
	_, err := db.eraser.ErasePending(t.Context())
	require.ErrorIs(t, err, held)
	require.Equal(t, 3, pending(t, db))
	requireNowhere(t, s, db.space.FS)
	held = nil
	_, err = db.eraser.ErasePending(t.Context())
	require.NoError(t, err)
	require.Zero(t, pending(t, db))
	_, err = db.eraser.ErasePending(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, calls, "RemoveCopies is not called if nothing is erased")
}

// CheckErased finds erased content in tables that have not been rewritten yet.
func TestCheckFindsErasedContent(t *testing.T) {
	db, _, _ := marked(t, vfs.NewMem())
	var marks []erase.PendingErasure
	require.NoError(t, erase.ForEachPending(db.engine, 1, func(m erase.PendingErasure) { marks = append(marks, m) }))
	require.Len(t, marks, 1)
	require.ErrorContains(t, db.eraser.CheckErased(t.Context(), marks), "still contains erased content")
	db.eraser.AllowValueRewrites()
	require.NoError(t, db.eraser.RewriteTables(t.Context(), marks))
	require.NoError(t, db.eraser.CheckErased(t.Context(), marks))
}

// A failed erasure is retried, and its marks remain until a retry succeeds.
func TestErasureIsRetried(t *testing.T) {
	for name, fault := range map[string]func(op errorfs.Op) bool{
		"deleting a table": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpRemove && strings.HasSuffix(op.Path, erase.TableSuffix)
		},
		"deleting a file of values": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpRemove && strings.HasSuffix(op.Path, erase.ValueFileSuffix)
		},
		"making a file of values": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, erase.ValueFileSuffix)
		},
		"deleting a log": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpRemove && strings.HasSuffix(op.Path, ".log")
		},
		"listing the folder": func(op errorfs.Op) bool { return op.Kind == errorfs.OpList },
	} {
		t.Run(name, func(t *testing.T) {
			var failing atomic.Bool
			memory := vfs.NewMem()
			db, _, s := marked(t, errorfs.Wrap(memory, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if failing.Load() && fault(op) {
					return errorfs.ErrInjected
				}
				return nil
			})))
			failing.Store(true)
			for range 2 {
				_, err := db.eraser.ErasePending(t.Context())
				require.ErrorIs(t, err, errorfs.ErrInjected)
				require.Equal(t, 3, pending(t, db))
			}
			failing.Store(false)
			require.Eventually(t, func() bool { // an attempt that is already running can still fail
				_, err := db.eraser.ErasePending(t.Context())
				return err == nil
			}, time.Minute, time.Millisecond)
			require.Zero(t, pending(t, db))
			requireNowhere(t, s, memory)
		})
	}
}

// The eraser's goroutine logs a failed pass and retries it.
func TestEraserRetries(t *testing.T) {
	var failing atomic.Bool
	memory := vfs.NewMem()
	db, _, s := marked(t, errorfs.Wrap(memory, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpList && failing.CompareAndSwap(true, false) {
			return errorfs.ErrInjected
		}
		return nil
	})))
	var logged bytes.Buffer
	db.eraser.Config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	failing.Store(true)
	db.eraser.Start(db.engine)
	require.Eventually(t, func() bool { return pending(t, db) == 0 }, time.Minute, time.Millisecond)
	db.eraser.Stop()
	require.Equal(t, 1, strings.Count(logged.String(), "erased content is still in the database files; retrying later"))
	require.Contains(t, logged.String(), errorfs.ErrInjected.Error())
	requireNowhere(t, s, memory)
}

// The marks of an erasure remain until no open iterator needs the old tables.
func TestErasureWaitsForIterators(t *testing.T) {
	db, _, s := marked(t, vfs.NewMem())
	open, err := db.engine.NewIter(nil)
	require.NoError(t, err)
	require.True(t, open.First())
	db.eraser.DeletionTimeout = 0
	_, err = db.eraser.ErasePending(t.Context())
	require.ErrorContains(t, err, "did not delete the obsolete tables")
	require.Equal(t, 3, pending(t, db))

	db.eraser.DeletionTimeout = time.Minute
	passed := make(chan error)
	go func() {
		_, err := db.eraser.ErasePending(t.Context())
		passed <- err
	}()
	require.NoError(t, open.Close())
	require.NoError(t, <-passed)
	require.Zero(t, pending(t, db))
	requireNowhere(t, s, db.space.FS)
}

// When free space is below the threshold, the eraser uses the reserve. If the reserve is too small,
// the eraser returns an error.
func TestErasureInTheReserve(t *testing.T) {
	memory := vfs.NewMem()
	db, l, s := marked(t, memory)
	usage := func(free uint64) {
		memory.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: free, TotalBytes: 100 << 30})
	}
	usage(disk.MinReserveBytes)
	require.ErrorIs(t, l.CheckWritable(t.Context()), storage.ErrNoSpace)
	_, err := db.eraser.ErasePending(t.Context())
	require.ErrorIs(t, err, storage.ErrNoSpace)
	require.Equal(t, 3, pending(t, db))

	usage(disk.MinReserveBytes + 1<<20)
	require.ErrorIs(t, l.CheckWritable(t.Context()), storage.ErrNoSpace)
	_, err = db.eraser.ErasePending(t.Context())
	require.NoError(t, err)
	requireNowhere(t, s, memory)
	require.ErrorIs(t, db.reserve.CheckCompactionSpace(), storage.ErrNoSpace, "other compactions wait again")
}

// fillingFS reports plenty of free space, except when full is set and returns true.
type fillingFS struct {
	vfs.FS
	full atomic.Pointer[func() bool]
}

func (f *fillingFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	usage := vfs.DiskUsage{AvailBytes: disk.MaxReserveBytes, TotalBytes: 4 * disk.MaxReserveBytes}
	if full := f.full.Load(); full != nil && (*full)() {
		usage.AvailBytes = disk.MinReserveBytes
	}
	return usage, nil
}

// If the disk fills up during an erasure, the erasure fails instead of waiting for free space.
func TestErasureFillsTheDisk(t *testing.T) {
	files := &fillingFS{FS: vfs.NewMem()}
	db, _, s := marked(t, files)
	whileErasing := func() bool { return db.reserve.ErasureMinFreeBytes.Load() > 0 }
	files.full.Store(&whileErasing)
	_, err := db.eraser.ErasePending(t.Context())
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 3, pending(t, db))

	files.full.Store(nil)
	_, err = db.eraser.ErasePending(t.Context())
	require.NoError(t, err)
	requireNowhere(t, s, files)
}

// Close interrupts an erasure, and the next Open continues it.
func TestCloseEndsAnErasure(t *testing.T) {
	memory := vfs.NewMem()
	db, _, s := marked(t, memory)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.eraser.ErasePending(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, db.Close())
	db = openOn(t, memory)
	require.Eventually(t, func() bool { return pending(t, db) == 0 }, time.Minute, time.Millisecond)
	requireNowhere(t, s, memory)
	require.NoError(t, db.Close())
}

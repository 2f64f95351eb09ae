// Package disk provides the file system of a database. It keeps space free for writes that must not
// fail, can keep old write-ahead logs from being reused, and adds a sync that Pebble omits.
package disk

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/storage"
)

// Space measures the free space for the database in Dir.
type Space struct {
	FS           vfs.FS
	Dir          string
	MinFreeBytes uint64 // the free-space threshold in bytes; 0 means the default
}

const mebibyte = 1 << 20

// Bounds of the default free-space threshold, in bytes. MinReserveBytes leaves room for the write-ahead
// log of full memory tables.
const (
	MinReserveBytes = 32 << 20 // lower bound
	MaxReserveBytes = 1 << 30  // upper bound
)

// defaultMark returns the default free-space threshold, in bytes, of a file system with the given
// total size in bytes. It is 5 % of the size, limited to the range from MinReserveBytes to MaxReserveBytes.
func defaultMark(total uint64) uint64 {
	return min(max(total/20, MinReserveBytes), MaxReserveBytes)
}

// Check returns nil if free space is not below the threshold, and storage.ErrNoSpace otherwise. It
// also returns nil if the file system does not report its free space.
func (s Space) Check() error { return s.CheckWithMaxThreshold(math.MaxUint64) }

// CheckBeforeOpen is like Check, but with a threshold of at most MinReserveBytes. Call it before opening
// the database. Opening flushes the write-ahead log, and if there is too little space for that, the
// engine retries forever.
func (s Space) CheckBeforeOpen() error { return s.CheckWithMaxThreshold(MinReserveBytes) }

// CheckWithMaxThreshold is like Check, but limits the threshold to the given number of bytes.
func (s Space) CheckWithMaxThreshold(most uint64) error {
	free, mark, err := s.FreeBytes()
	if err != nil {
		return err
	}
	mark = min(mark, most)
	if free < mark {
		return fmt.Errorf("%w: %d MiB are free, but %d MiB are needed", storage.ErrNoSpace, free/mebibyte, (mark+mebibyte-1)/mebibyte)
	}
	return nil
}

// FreeBytes returns the free space and the free-space threshold, in bytes. Both are 0 if the file
// system does not report its free space.
func (s Space) FreeBytes() (free, mark uint64, err error) {
	usage, err := s.FS.GetDiskUsage(s.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("checking the free space in %s: %w", s.Dir, err)
	}
	mark = s.MinFreeBytes
	if mark == 0 {
		mark = defaultMark(usage.TotalBytes)
	}
	return usage.AvailBytes, mark, nil
}

// CompactionCategory is the write category that Pebble uses for the tables written by compactions.
// Logs, manifests, and flushed tables have other categories.
const CompactionCategory vfs.DiskWriteCategory = "pebble-compaction"

// spacePause is the time between two checks of the free space while a compaction waits for it.
const spacePause = 200 * time.Millisecond

// ReserveFS reserves the space below the free-space threshold for logs, manifests, and flushes,
// because their failure ends the process. A compaction needs space for its output before it frees
// any, and the output can be as large as the database. ReserveFS therefore makes a compaction wait
// for space before it creates each table. Opening and closing the database wait for running
// compactions, so a compaction that lacks space then fails and is retried later. While content is
// being erased, compactions may use space below the threshold, and they also fail instead of
// waiting.
type ReserveFS struct {
	vfs.FS
	Space Space
	// WaitsForSpace says whether a compaction that lacks space waits for it instead of failing,
	// except while content is being erased. It is false while the database is being opened or
	// closed.
	WaitsForSpace atomic.Bool
	// ErasureMinFreeBytes is the free-space threshold, in bytes, for compactions while content is
	// being erased, and 0 at other times. It applies only if it is below the usual threshold. The
	// eraser sets it.
	ErasureMinFreeBytes atomic.Uint64
}

// Create implements vfs.FS.
func (r *ReserveFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == CompactionCategory {
		for errors.Is(r.CheckCompactionSpace(), storage.ErrNoSpace) {
			if !r.WaitsForSpace.Load() || r.ErasureMinFreeBytes.Load() > 0 {
				return nil, fmt.Errorf("creating %s: %w", name, syscall.ENOSPC)
			}
			time.Sleep(spacePause)
		}
	}
	return r.FS.Create(name, category)
}

// CheckCompactionSpace returns nil if there is enough space for a compaction to create a table.
func (r *ReserveFS) CheckCompactionSpace() error {
	if most := r.ErasureMinFreeBytes.Load(); most > 0 {
		return r.Space.CheckWithMaxThreshold(most)
	}
	return r.Space.Check()
}

// Unwrap implements vfs.FS.
func (r *ReserveFS) Unwrap() vfs.FS { return r.FS }

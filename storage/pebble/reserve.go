package pebble

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

// space measures the free space for the database.
type space struct {
	fs      vfs.FS
	dir     string
	minFree uint64 // bytes; 0 means the default mark
}

const mebibyte = 1 << 20

// Bounds of the default mark of free space, in bytes.
const (
	leastMark = memTables * memTableBytes
	mostMark  = 1 << 30
)

// defaultMark returns 5 % of a file system's size, within the bounds.
func defaultMark(total uint64) uint64 {
	return min(max(total/20, leastMark), mostMark)
}

// check returns nil if free space is above the mark, and storage.ErrNoSpace otherwise. A file
// system that does not report its free space passes.
func (s space) check() error { return s.above(math.MaxUint64) }

// checkOpening is check for opening the database, which flushes the write-ahead log. With less
// space than that the engine would retry for ever.
func (s space) checkOpening() error { return s.above(leastMark) }

// above returns nil if free space is above the mark, or above most if that is less.
func (s space) above(most uint64) error {
	free, mark, err := s.room()
	if err != nil {
		return err
	}
	mark = min(mark, most)
	if free < mark {
		return fmt.Errorf("%w: %d MiB free, %d MiB needed", storage.ErrNoSpace, free/mebibyte, (mark+mebibyte-1)/mebibyte)
	}
	return nil
}

// room returns the free space and the mark, in bytes; both are 0 if the file system does not
// report its free space.
func (s space) room() (free, mark uint64, err error) {
	usage, err := s.fs.GetDiskUsage(s.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("checking free space of %s: %w", s.dir, err)
	}
	mark = s.minFree
	if mark == 0 {
		mark = defaultMark(usage.TotalBytes)
	}
	return usage.AvailBytes, mark, nil
}

// compactionCategory is Pebble's name for tables that a compaction writes. Logs, manifests,
// and flushed tables have other categories.
const compactionCategory vfs.DiskWriteCategory = "pebble-compaction"

// spacePause is the time between two checks by a compaction that waits for space.
const spacePause = 200 * time.Millisecond

// reserveFS reserves the space below the mark for logs, manifests, and flushes, whose failure
// ends the process. A compaction needs space for its output before it frees any, and can be as
// large as the database. So it waits before each table until there is space. While the
// database is being opened or closed, which waits for compactions, it fails instead and is
// retried later. It also fails, instead of waiting, while content is erased; erasure may go
// below the mark.
type reserveFS struct {
	vfs.FS
	space   space
	patient atomic.Bool // false while the database is being opened or closed
	// erasing is 0, except during an erasure. Then this number of free bytes suffices if it is
	// below the mark. The eraser sets it.
	erasing atomic.Uint64
}

// Create implements vfs.FS.
func (r *reserveFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == compactionCategory {
		for errors.Is(r.enough(), storage.ErrNoSpace) {
			if !r.patient.Load() || r.erasing.Load() > 0 {
				return nil, fmt.Errorf("creating %s: %w", name, syscall.ENOSPC)
			}
			time.Sleep(spacePause)
		}
	}
	return r.FS.Create(name, category)
}

// enough returns nil if there is space for a compaction.
func (r *reserveFS) enough() error {
	if most := r.erasing.Load(); most > 0 {
		return r.space.above(most)
	}
	return r.space.check()
}

// Unwrap implements vfs.FS.
func (r *reserveFS) Unwrap() vfs.FS { return r.FS }

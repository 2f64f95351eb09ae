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

// space is the room for the database.
type space struct {
	fs      vfs.FS
	dir     string
	minFree uint64 // bytes; 0 means the default mark
}

const mebibyte = 1 << 20

// Bounds of the default free-space mark, in bytes.
const (
	leastMark = memTables * memTableBytes
	mostMark  = 1 << 30
)

// defaultMark is 5 % of a file system of that many bytes, within bounds.
func defaultMark(total uint64) uint64 {
	return min(max(total/20, leastMark), mostMark)
}

// check is nil if there is room above the mark, storage.ErrNoSpace if not. A
// file system that cannot say how much room it has counts as roomy.
func (s space) check() error { return s.above(math.MaxUint64) }

// checkOpening is check for opening the database, which writes out what its
// write-ahead log holds: with less room than that the engine would try for ever.
func (s space) checkOpening() error { return s.above(leastMark) }

// above is nil if there is room above the mark, or above most where that is less.
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

// room is the free space and the mark, in bytes; both are 0 where the file system
// cannot say how much room it has.
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

// compactionCategory is Pebble's name for tables that a compaction writes. Logs,
// manifests and flushed tables have other names.
const compactionCategory vfs.DiskWriteCategory = "pebble-compaction"

// spacePause is how long a compaction that waits for room looks away.
const spacePause = 200 * time.Millisecond

// reserveFS keeps what is below the free-space mark for logs, manifests and
// flushes, whose failure ends the process. A compaction needs room for its
// output before it gives any back, and can be as large as the database; here it
// waits before each table until there is room. While the database is opened or
// closed, which waits for compactions, it fails instead and is tried again later;
// and so it does while content is erased, which may go below the mark.
type reserveFS struct {
	vfs.FS
	space   space
	patient atomic.Bool // false while the database is opened or closed
	// erasing is 0 except while content is erased: then this many free bytes are
	// enough, where that is less than the mark. The eraser sets it.
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

// enough is nil if there is room for a compaction.
func (r *reserveFS) enough() error {
	if most := r.erasing.Load(); most > 0 {
		return r.space.above(most)
	}
	return r.space.check()
}

// Unwrap implements vfs.FS.
func (r *reserveFS) Unwrap() vfs.FS { return r.FS }

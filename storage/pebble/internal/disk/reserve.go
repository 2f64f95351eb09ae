// Package disk is the file system of a database. It keeps space free for writes that must not
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
	FS      vfs.FS
	Dir     string
	MinFree uint64 // the mark in bytes; 0 means the default mark
}

const mebibyte = 1 << 20

// Limits of the default mark of free space, in bytes. MinReserve leaves room for the
// write-ahead log of full memory tables.
const (
	MinReserve = 32 << 20
	MaxReserve = 1 << 30
)

// defaultMark returns 5 % of a file system's size, within the limits.
func defaultMark(total uint64) uint64 {
	return min(max(total/20, MinReserve), MaxReserve)
}

// Check returns nil if free space is above the mark, and storage.ErrNoSpace otherwise. A file
// system that does not report its free space passes.
func (s Space) Check() error { return s.Above(math.MaxUint64) }

// CheckOpening is like Check, for opening the database, which flushes the write-ahead log.
// With less space than MinReserve, the engine would retry forever.
func (s Space) CheckOpening() error { return s.Above(MinReserve) }

// Above returns nil if free space is above the smaller of the mark and most.
func (s Space) Above(most uint64) error {
	free, mark, err := s.Room()
	if err != nil {
		return err
	}
	mark = min(mark, most)
	if free < mark {
		return fmt.Errorf("%w: %d MiB free, %d MiB needed", storage.ErrNoSpace, free/mebibyte, (mark+mebibyte-1)/mebibyte)
	}
	return nil
}

// Room returns the free space and the mark, in bytes; both are 0 if the file system does not
// report its free space.
func (s Space) Room() (free, mark uint64, err error) {
	usage, err := s.FS.GetDiskUsage(s.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("checking free space of %s: %w", s.Dir, err)
	}
	mark = s.MinFree
	if mark == 0 {
		mark = defaultMark(usage.TotalBytes)
	}
	return usage.AvailBytes, mark, nil
}

// CompactionCategory is Pebble's category for tables that a compaction writes. Logs,
// manifests, and flushed tables have other categories.
const CompactionCategory vfs.DiskWriteCategory = "pebble-compaction"

// spacePause is the time between two checks of a compaction that waits for space.
const spacePause = 200 * time.Millisecond

// ReserveFS reserves the space below the mark for logs, manifests, and flushes, whose failure
// ends the process. A compaction needs space for its output before it frees any, and can be as
// large as the database. It therefore waits for space before each table. While the database is
// being opened or closed, which waits for compactions, a compaction fails instead and is
// retried later. It also fails instead of waiting while content is being erased; compactions
// may then use space below the mark.
type ReserveFS struct {
	vfs.FS
	Space   Space
	Patient atomic.Bool // false while the database is being opened or closed
	// Erasing is the free space, in bytes, that is enough for a compaction during an erasure,
	// if it is below the mark. It is 0 at other times. The eraser sets it.
	Erasing atomic.Uint64
}

// Create implements vfs.FS.
func (r *ReserveFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == CompactionCategory {
		for errors.Is(r.Enough(), storage.ErrNoSpace) {
			if !r.Patient.Load() || r.Erasing.Load() > 0 {
				return nil, fmt.Errorf("creating %s: %w", name, syscall.ENOSPC)
			}
			time.Sleep(spacePause)
		}
	}
	return r.FS.Create(name, category)
}

// Enough returns nil if there is space for a compaction.
func (r *ReserveFS) Enough() error {
	if most := r.Erasing.Load(); most > 0 {
		return r.Space.Above(most)
	}
	return r.Space.Check()
}

// Unwrap implements vfs.FS.
func (r *ReserveFS) Unwrap() vfs.FS { return r.FS }

package pebble

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/storage"
)

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

// Writable implements storage.Store. A file system that cannot say how much
// room it has counts as roomy.
func (l *ledger) Writable(ctx context.Context) error {
	if err := l.db.usable(ctx); err != nil {
		return fmt.Errorf("checking free space: %w", err)
	}
	return l.db.writable()
}

func (d *Database) writable() error {
	usage, err := d.fs.GetDiskUsage(d.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checking free space of %s: %w", d.dir, err)
	}
	mark := d.minFree
	if mark == 0 {
		mark = defaultMark(usage.TotalBytes)
	}
	if usage.AvailBytes < mark {
		return fmt.Errorf("%w: %d MiB free, %d MiB needed", storage.ErrNoSpace,
			usage.AvailBytes/mebibyte, (mark+mebibyte-1)/mebibyte)
	}
	return nil
}

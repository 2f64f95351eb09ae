package pebble

import (
	"context"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Copy makes a consistent copy of the database in the new folder dir, which must not exist yet.
// Reads and writes can continue. The copy contains every commit that returned before the call. It
// contains any other commit completely or not at all. If dir is on the same file system, the copy
// consists of hard links and at first needs almost no space. Erased content stays on the disk as
// long as a copy that contains it exists (see Config.RemoveUnusedCopies). If free space is below
// the threshold, Copy returns storage.ErrNoSpace.
func (d *Database) Copy(ctx context.Context, dir string) error {
	if err := d.writable(ctx); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	if err := d.space.Check(); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	defer d.walFS.RetainLogs()()
	if err := d.engine.Checkpoint(dir, engine.WithFlushedWAL()); err != nil {
		return fmt.Errorf("copying the database to %s: %w", dir, err)
	}
	return nil
}

package pebble

import (
	"context"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Copy makes a consistent copy of the database in dir, which must not exist, while reads and writes
// continue. The copy contains every commit that returned before the call; it contains any other
// commit completely or not at all. If dir is on the same file system, the copy consists of hard
// links and at first needs almost no space. As long as the copy exists, its files stay on the disk,
// even if the database has erased their content (see Config.RemoveCopies). If free space is below the
// threshold, Copy returns storage.ErrNoSpace.
func (d *Database) Copy(ctx context.Context, dir string) error {
	if err := d.writable(ctx); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	if err := d.space.Check(); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	defer d.logs.BlockDrop()()
	if err := d.engine.Checkpoint(dir, engine.WithFlushedWAL()); err != nil {
		return fmt.Errorf("copying the database to %s: %w", dir, err)
	}
	return nil
}

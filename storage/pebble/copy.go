package pebble

import (
	"context"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Copy makes a consistent copy of the database in dir, which must not exist, while reads and
// writes continue. The copy contains every commit that returned before the call; any other
// commit is in it completely or not at all. On the same file system the copy consists of hard
// links, and at first takes almost no space. As long as the copy exists, it keeps its files on
// the disk, including erased content (Config.Copies). If free space is below the mark, Copy
// returns storage.ErrNoSpace.
func (d *Database) Copy(ctx context.Context, dir string) error {
	if err := d.writable(ctx); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	if err := d.space.Check(); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	defer d.logs.Hold()()
	if err := d.engine.Checkpoint(dir, engine.WithFlushedWAL()); err != nil {
		return fmt.Errorf("copying the database to %s: %w", dir, err)
	}
	return nil
}

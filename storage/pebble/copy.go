package pebble

import (
	"context"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Copy makes a consistent copy of the database in dir, which must not exist, while
// everything goes on: all commits that were answered before the call are in it, each
// commit is in it whole or not at all. On the file system of the database it is made of
// hard links and takes next to no room, until tables are merged: what is in it stays on
// the disk until it is removed, erased content too (Config.Copies). Below the mark of
// free space none is made: storage.ErrNoSpace.
func (d *Database) Copy(ctx context.Context, dir string) error {
	if err := d.writable(ctx); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	if err := d.space.check(); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	d.logs.copied.RLock()
	defer d.logs.copied.RUnlock()
	if err := d.engine.Checkpoint(dir, engine.WithFlushedWAL()); err != nil {
		return fmt.Errorf("copying the database to %s: %w", dir, err)
	}
	return nil
}

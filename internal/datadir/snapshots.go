package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/api"
	"colophon/internal/folderlock"
	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/pebble"
)

// Snapshots is where a copy of the database is made for a backup: beside it, so that
// it is made of links. A running backup has the folder locked, and at most one copy in it;
// what is there while the folder is not locked was left behind.
type Snapshots struct{ Dir string }

// SnapshotsOf is the snapshot folder of a data folder.
func SnapshotsOf(data string) Snapshots {
	return Snapshots{filepath.Join(data, "snapshots")}
}

// snapshotName is the folder of the copy, in which the database is one too.
const snapshotName = "backup"

// Database is where the copy is.
func (s Snapshots) Database() string { return filepath.Join(s.Dir, snapshotName, "db") }

// ErrSnapshotHeld: a copy stays, since a backup reads it.
var ErrSnapshotHeld = errors.New("a backup that is under way reads a copy, in which erased content may be until it ends")

// errNoBackup: no backup waits that would remove the copy which is asked for.
var errNoBackup = fmt.Errorf("%w: no colophon backup on this machine waits for one", api.ErrNoSnapshot)

// Lock takes the folder for a backup, made if absent, without what others have left.
// storage.ErrInUse if another backup has it.
func (s Snapshots) Lock() (io.Closer, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	held, err := folderlock.Take(s.Dir)
	if err != nil {
		return nil, err
	}
	if err := s.Remove(); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// Remove removes the copy, durably. The caller has the lock.
func (s Snapshots) Remove() error {
	if err := os.RemoveAll(filepath.Join(s.Dir, snapshotName)); err != nil {
		return fmt.Errorf("removing the copy of a backup: %w", err)
	}
	return ledger.SyncDir(s.Dir)
}

// Sweep removes a copy that a backup has left; ErrSnapshotHeld if one is under way.
func (s Snapshots) Sweep() error {
	if _, err := os.Lstat(filepath.Join(s.Dir, snapshotName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := s.Clear()
	if errors.Is(err, storage.ErrInUse) {
		return ErrSnapshotHeld
	}
	return err
}

// Clear makes the folder, and removes what a backup has left. storage.ErrInUse if one is
// under way.
func (s Snapshots) Clear() error {
	held, err := s.Lock()
	if err != nil {
		return err
	}
	return held.Close()
}

// Make makes the copy for the backup that has the lock. Erasing counts the erased
// content that may be in it.
func (s Snapshots) Make(ctx context.Context, database *pebble.Database) (erasing int, err error) {
	// The process that makes the folder makes the copy; Mkdir fails for a second one.
	if err := os.Mkdir(filepath.Join(s.Dir, snapshotName), 0o700); err != nil {
		return 0, err
	}
	pending, err := database.Erasing(ctx)
	if err == nil {
		err = database.Copy(ctx, s.Database())
	}
	if err != nil {
		return 0, errors.Join(err, s.Remove())
	}
	return pending.Pieces, nil
}

// Answer makes the copy that a backup of another process asks its server for.
// api.ErrNoSnapshot if none waits for one, or the one that does has it.
func (s Snapshots) Answer(ctx context.Context, database *pebble.Database) (name string, erasing int, err error) {
	held, err := folderlock.Take(s.Dir)
	switch {
	case err == nil:
		return "", 0, errors.Join(errNoBackup, held.Close())
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, errNoBackup
	case !errors.Is(err, storage.ErrInUse):
		return "", 0, err
	}
	erasing, err = s.Make(ctx, database)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: the backup that is under way has its copy", api.ErrNoSnapshot)
	}
	return snapshotName, erasing, err
}

package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/api/admin"
	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/storage"
	"colophon/storage/pebble"
)

// SnapshotFolder is the folder for the copy of the database that a backup makes. It is on the same
// file system as the database, so that the copy can consist of hard links. A running backup locks
// the folder, which then holds at most one copy. Files in a folder that is not locked are left over
// from an earlier backup.
type SnapshotFolder struct{ Dir string }

// SnapshotFolderOf returns the snapshot folder of a data folder.
func SnapshotFolderOf(data string) SnapshotFolder {
	return SnapshotFolder{filepath.Join(data, "snapshots")}
}

// snapshotName is the name of the subfolder that contains the copy of the database.
const snapshotName = "backup"

// CopyPath returns the path of a backup's copy, which contains the database in a subfolder.
func (s SnapshotFolder) CopyPath() string { return filepath.Join(s.Dir, snapshotName) }

// DatabasePath returns the path of the database in the copy.
func (s SnapshotFolder) DatabasePath() string { return filepath.Join(s.CopyPath(), "db") }

// ErrSnapshotInUse means that a copy was not removed, because a backup is reading it.
var ErrSnapshotInUse = errors.New("a running backup is reading a copy of the database that may still contain erased content; the copy is removed when the backup finishes")

// errNoBackup means that no backup is waiting for the requested copy, so nothing would ever remove
// it.
var errNoBackup = fmt.Errorf("%w: no colophon backup on this machine is waiting for a copy", admin.ErrNoSnapshot)

// Lock creates the folder if needed, locks it for a backup, and removes leftover copies. The error
// wraps storage.ErrInUse if another backup holds the lock.
func (s SnapshotFolder) Lock() (io.Closer, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	held, err := folderlock.Take(s.Dir)
	if err != nil {
		return nil, err
	}
	if err := s.RemoveCopy(); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// RemoveCopy removes the copy durably. The caller must hold the lock.
func (s SnapshotFolder) RemoveCopy() error {
	if err := os.RemoveAll(filepath.Join(s.Dir, snapshotName)); err != nil {
		return fmt.Errorf("removing the copy of the database for a backup: %w", err)
	}
	return safefile.SyncDir(s.Dir)
}

// RemoveLeftoverCopy removes the copy that an earlier backup left behind, if there is one. It
// returns ErrSnapshotInUse if a backup is running.
func (s SnapshotFolder) RemoveLeftoverCopy() error {
	if _, err := os.Lstat(filepath.Join(s.Dir, snapshotName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := s.Reset()
	if errors.Is(err, storage.ErrInUse) {
		return ErrSnapshotInUse
	}
	return err
}

// Reset creates the folder and removes leftover copies. The error wraps storage.ErrInUse if a
// backup is running.
func (s SnapshotFolder) Reset() error {
	held, err := s.Lock()
	if err != nil {
		return err
	}
	return held.Close()
}

// CopyDatabase copies the database for the backup that holds the lock. erasing is the number of
// erased pieces of content that the copy may still contain.
func (s SnapshotFolder) CopyDatabase(ctx context.Context, database *pebble.Database) (erasing int, err error) {
	// Mkdir fails for all processes but the first, so only one of them makes the copy.
	if err := os.Mkdir(filepath.Join(s.Dir, snapshotName), 0o700); err != nil {
		return 0, err
	}
	pending, err := database.PendingErasures(ctx)
	if err == nil {
		err = database.Copy(ctx, s.DatabasePath())
	}
	if err != nil {
		return 0, errors.Join(err, s.RemoveCopy())
	}
	return pending.Count, nil
}

// CopyForBackupProcess copies the database for a backup that runs in another process and has requested the
// copy from the server. The error wraps admin.ErrNoSnapshot if no backup is waiting for a copy or the
// backup already has one.
func (s SnapshotFolder) CopyForBackupProcess(ctx context.Context, database *pebble.Database) (name string, erasing int, err error) {
	held, err := folderlock.Take(s.Dir)
	switch {
	case err == nil:
		return "", 0, errors.Join(errNoBackup, held.Close())
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, errNoBackup
	case !errors.Is(err, storage.ErrInUse):
		return "", 0, err
	}
	erasing, err = s.CopyDatabase(ctx, database)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: the running backup already has a copy of the database", admin.ErrNoSnapshot)
	}
	return snapshotName, erasing, err
}

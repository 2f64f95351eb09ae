package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/api"
	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/pebble"
)

// snapshotFolder is where a copy of the database is made for a backup: beside it, so that
// it is made of links. A running backup has the folder locked, and at most one copy in it;
// what is there while nobody has the lock was left behind.
type snapshotFolder struct{ dir string }

func snapshots(data string) snapshotFolder {
	return snapshotFolder{filepath.Join(data, "snapshots")}
}

// snapshotName is the folder of the copy, in which the database is one too.
const snapshotName = "backup"

// database is where the copy is.
func (s snapshotFolder) database() string { return filepath.Join(s.dir, snapshotName, "db") }

// errSnapshotHeld: a copy stays, since a backup reads it.
var errSnapshotHeld = errors.New("a backup that is under way reads a copy, in which erased content may be until it ends")

// errNoBackup: nobody would remove the copy that is asked for.
var errNoBackup = fmt.Errorf("%w: no colophon backup on this machine waits for one", api.ErrNoSnapshot)

// lock takes the folder for a backup, made if absent, without what others have left.
// storage.ErrInUse if another backup has it.
func (s snapshotFolder) lock() (io.Closer, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	held, err := pebble.LockFolder(s.dir)
	if err != nil {
		return nil, err
	}
	if err := s.remove(); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// remove removes the copy, durably. The caller has the lock.
func (s snapshotFolder) remove() error {
	if err := os.RemoveAll(filepath.Join(s.dir, snapshotName)); err != nil {
		return fmt.Errorf("removing the copy of a backup: %w", err)
	}
	return ledger.SyncDir(s.dir)
}

// sweep removes a copy that a backup has left; errSnapshotHeld if one is under way.
func (s snapshotFolder) sweep() error {
	if _, err := os.Lstat(filepath.Join(s.dir, snapshotName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := s.clear()
	if errors.Is(err, storage.ErrInUse) {
		return errSnapshotHeld
	}
	return err
}

// clear makes the folder, and removes what a backup has left. storage.ErrInUse if one is
// under way.
func (s snapshotFolder) clear() error {
	held, err := s.lock()
	if err != nil {
		return err
	}
	return held.Close()
}

// make makes the copy for the backup that has the lock. Erasing counts the erased
// content that may be in it.
func (s snapshotFolder) make(ctx context.Context, database *pebble.Database) (erasing int, err error) {
	// Who makes the folder makes the copy: nobody else may meanwhile.
	if err := os.Mkdir(filepath.Join(s.dir, snapshotName), 0o700); err != nil {
		return 0, err
	}
	pending, err := database.Erasing(ctx)
	if err == nil {
		err = database.Copy(ctx, s.database())
	}
	if err != nil {
		return 0, errors.Join(err, s.remove())
	}
	return pending.Pieces, nil
}

// answer makes the copy that a backup of another process asks its server for.
// api.ErrNoSnapshot if none waits for one, or the one that does has it.
func (s snapshotFolder) answer(ctx context.Context, database *pebble.Database) (name string, erasing int, err error) {
	held, err := pebble.LockFolder(s.dir)
	switch {
	case err == nil:
		return "", 0, errors.Join(errNoBackup, held.Close())
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, errNoBackup
	case !errors.Is(err, storage.ErrInUse):
		return "", 0, err
	}
	erasing, err = s.make(ctx, database)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: the backup that is under way has its copy", api.ErrNoSnapshot)
	}
	return snapshotName, erasing, err
}

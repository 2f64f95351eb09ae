package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/internal/safefile"
)

// replaceFile replaces a file of the token store atomically. The caller must prevent concurrent
// calls for the same file. If durable is true, the new file survives a loss of power.
func replaceFile(path string, text []byte, durable bool) error {
	next := path + ".next"
	// An interrupted call might have left a file. Remove it instead of writing to it, because
	// another user might have put it there.
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if durable {
		err = errors.Join(err, file.Sync())
	}
	err = errors.Join(err, giveToOwner(next, filepath.Dir(path)), file.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if durable {
		return safefile.SyncDir(filepath.Dir(path))
	}
	return nil
}

// openRegular opens a regular file of the token store for reading. It refuses anything else: a
// pipe would block, a device has no end, and a symbolic link could point elsewhere.
func openRegular(path string) (*os.File, fs.FileInfo, error) { return safefile.Open(path) }

// makeFolder durably creates the folder of the token store if it is missing. The new folder has
// the same owner as the data folder.
func makeFolder(dir string) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(giveToOwner(dir, parent), safefile.SyncDir(parent))
}

// lock waits for the lock of the token store. The lock is held until release is called or the
// process exits.
func lock(dir string) (release func() error, err error) {
	path := filepath.Join(dir, lockFile)
	if err := safefile.CheckFolder(dir); err != nil {
		return nil, err
	}
	if err := safefile.CheckRegular(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(giveToOwner(path, dir), lockWhole(file)); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return file.Close, nil
}

package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/internal/safefile"
	"colophon/storage"
)

// folderLock keeps all others out of a database: by the engine's lock file and,
// because a file can be deleted and made anew, by a lock on the folder itself
// where the system has one.
type folderLock struct {
	file   *engine.Lock
	folder io.Closer // nil where there is none
}

// LockFolder keeps all others out of a folder of the operating system until the Closer
// is closed or the process ends; storage.ErrInUse if somebody has it. A file "LOCK" is
// made in it, and stays.
func LockFolder(dir string) (io.Closer, error) {
	lock, err := lockFolder(vfs.Default, dir)
	if err != nil {
		return nil, err // and a Closer that is nil
	}
	return lock, nil
}

// lockFolder takes both locks; storage.ErrInUse if somebody has one of them.
func lockFolder(files vfs.FS, dir string) (*folderLock, error) {
	if vfs.Root(files) == vfs.Default { // the engine would empty what a link leads to
		if err := safefile.CheckRegular(filepath.Join(dir, "LOCK")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		}
	}
	lock := new(folderLock)
	var err error
	if vfs.Root(files) == vfs.Default { // first: the process that has the file's lock loses it with any close of the file
		if lock.folder, err = lockItself(dir); err != nil {
			return nil, err
		}
	}
	if lock.file, err = engine.LockDirectory(dir, lockFiles(files)); err == nil {
		return lock, nil
	}
	if heldElsewhere(err) {
		err = fmt.Errorf("%w: %s", storage.ErrInUse, dir)
	} else {
		err = fmt.Errorf("locking %s: %w", dir, err)
	}
	if lock.folder != nil {
		err = errors.Join(err, lock.folder.Close())
	}
	return nil, err
}

// Close gives both locks back.
func (l *folderLock) Close() error {
	err := l.file.Close()
	if l.folder != nil {
		err = errors.Join(err, l.folder.Close())
	}
	return err
}

// heldElsewhere reports whether a failed lock means that somebody has it. POSIX
// lets fcntl say EAGAIN or EACCES; the latter on the way to the file, which
// comes with its path, is a matter of permissions. A lock of the same process
// is known to Pebble by a sentence only.
func heldElsewhere(err error) bool {
	var onPath *fs.PathError
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return true
	case errors.Is(err, syscall.EACCES):
		return !errors.As(err, &onPath)
	default:
		return strings.Contains(err.Error(), "lock held by current process") ||
			strings.Contains(err.Error(), syscall.EAGAIN.Error())
	}
}

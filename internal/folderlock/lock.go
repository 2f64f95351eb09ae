// Package folderlock lets one process at a time use a folder.
package folderlock

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

// Lock is a lock on a folder. It has two parts: the engine's lock file, and, because a file
// can be deleted and made again, a lock on the folder itself where the system has one.
type Lock struct {
	File   *engine.Lock // the engine checks it when it opens the folder
	folder io.Closer    // nil if the system or the file system has no such locks
}

// Take locks a folder of the operating system until the Closer is closed or the process
// ends. It returns storage.ErrInUse if another process, or this one, has the lock. The
// file "LOCK" is made in the folder and stays.
func Take(dir string) (io.Closer, error) {
	lock, err := TakeIn(vfs.Default, dir)
	if err != nil {
		return nil, err // with a nil Closer, not a nil *Lock in it
	}
	return lock, nil
}

// TakeIn locks a folder of any file system, like Take.
func TakeIn(files vfs.FS, dir string) (*Lock, error) {
	if vfs.Root(files) == vfs.Default { // the engine would empty what a link leads to
		if err := safefile.CheckRegular(filepath.Join(dir, "LOCK")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		}
	}
	lock := new(Lock)
	var err error
	if vfs.Root(files) == vfs.Default { // first: the process that has the file's lock loses it with any close of the file
		if lock.folder, err = lockItself(dir); err != nil {
			return nil, err
		}
	}
	if lock.File, err = engine.LockDirectory(dir, lockFiles(files)); err == nil {
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

// Close releases both parts.
func (l *Lock) Close() error {
	err := l.File.Close()
	if l.folder != nil {
		err = errors.Join(err, l.folder.Close())
	}
	return err
}

// heldElsewhere reports whether a lock failed because it is held. POSIX lets fcntl return
// EAGAIN or EACCES. EACCES with a path means missing permissions instead. A lock that this
// process holds is known only by the text of the engine's error.
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

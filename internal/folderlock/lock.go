// Package folderlock allows only one process at a time to use a folder.
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

// Lock prevents other processes from using a folder. It consists of the engine's lock file and,
// where the system supports it, a lock on the folder itself. The file alone is not enough, because
// it can be deleted and created again.
type Lock struct {
	EngineLock *engine.Lock // the engine checks this lock when it opens the folder
	folder     io.Closer    // nil if the system or the file system cannot lock folders
}

// Take locks a folder on the operating system's file system until the Closer is closed or the process
// exits. Its error wraps storage.ErrInUse if another process, or this one, already holds the lock. Take
// creates the file "LOCK" in the folder; Close does not remove that file.
func Take(dir string) (io.Closer, error) {
	lock, err := TakeFS(vfs.Default, dir)
	if err != nil {
		return nil, err // returning lock would make the Closer a non-nil interface that holds a nil *Lock
	}
	return lock, nil
}

// TakeFS is like Take, but locks a folder on any file system.
func TakeFS(files vfs.FS, dir string) (*Lock, error) {
	if vfs.Root(files) == vfs.Default { // the engine's own Lock would follow a symbolic link and truncate its target
		if err := safefile.CheckRegular(filepath.Join(dir, "LOCK")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		}
	}
	lock := new(Lock)
	var err error
	if vfs.Root(files) == vfs.Default { // lock the folder first: if this process already holds LOCK, opening and closing that file would release its lock
		if lock.folder, err = lockItself(dir); err != nil {
			return nil, err
		}
	}
	if lock.EngineLock, err = engine.LockDirectory(dir, lockFiles(files)); err == nil {
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

// Close releases the engine's lock file and, if it is held, the lock on the folder itself.
func (l *Lock) Close() error {
	err := l.EngineLock.Close()
	if l.folder != nil {
		err = errors.Join(err, l.folder.Close())
	}
	return err
}

// heldElsewhere reports whether taking a lock failed because the lock is already held. POSIX allows fcntl to
// return EAGAIN or EACCES in that case, but EACCES together with a path means that permissions are missing. If
// this process itself holds the lock, only the text of the engine's error says so.
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

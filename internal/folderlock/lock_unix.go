//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package folderlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/storage"
)

// lockFiles returns a file system whose Lock method neither truncates files nor follows symbolic
// links. The engine's own Lock does both.
func lockFiles(files vfs.FS) vfs.FS {
	if vfs.Root(files) != vfs.Default {
		return files
	}
	return safeLockFS{files}
}

type safeLockFS struct{ vfs.FS }

// Lock locks a regular file until the Closer is closed. It creates the file if needed.
func (safeLockFS) Lock(name string) (io.Closer, error) {
	const flags = os.O_RDWR | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file; remove it", name)
	}
	if err == nil { // like the engine's own lock, this lock belongs to the process
		err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart})
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// flock locks an open folder. If another process holds the lock, flock returns an error instead of
// waiting.
func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// lockItself locks the folder itself rather than a file in it. The lock is held until the Closer is
// closed or the process exits. The error wraps storage.ErrInUse if the folder is already locked.
// The Closer is nil if the file system does not support locks on folders, as is the case for some
// network file systems.
func lockItself(dir string) (io.Closer, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	err = flock(folder)
	switch {
	case err == nil:
		return folder, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%w: %s", storage.ErrInUse, dir), folder.Close())
	default:
		return nil, folder.Close()
	}
}

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"colophon/storage"
)

// lockItself locks a folder until the Closer is closed or the process ends;
// storage.ErrInUse if it is locked already. nil where the folder is on a file
// system that has no such locks, as some on networks have not.
func lockItself(dir string) (io.Closer, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	for {
		err = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
		return folder, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%w: %s", storage.ErrInUse, dir), folder.Close())
	default:
		return nil, folder.Close()
	}
}

//go:build unix

package bucket

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockFolder waits for the lock on a folder. The lock is released when the Closer is closed or
// the process exits.
func lockFolder(path string) (io.Closer, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX) // #nosec G115 -- a descriptor fits
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, dir.Close())
		}
	}
}

func isFolder(err error) bool {
	return errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR)
}

//go:build !windows

package access

import (
	"errors"
	"os"
	"syscall"
)

// giveToOwner gives the file at path to the owner of folder. If root runs a command for another
// user, that user's server must still be able to read the file. If the process does not run as
// root, giveToOwner does nothing.
func giveToOwner(path, folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(path, int(owner.Uid), int(owner.Gid))
}

// lockWhole waits for an exclusive lock on a file. Closing the file releases the lock.
func lockWhole(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// isFull reports whether an error means that the disk or the user's quota is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

package access

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// giveToOwner does nothing: a file inherits its access rights from its folder.
func giveToOwner(string, string) error { return nil }

// lockWhole waits for an exclusive lock on a file. Closing the file releases the lock.
func lockWhole(file *os.File) error {
	return windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped))
}

// isFull reports whether an error means that the disk is full.
func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

//go:build !windows

package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openAtOnce has a file opened without waiting for anybody, and without following a
// symbolic link.
const openAtOnce = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// checkPrivate refuses what others than its owner can read or write, and says how
// to change that.
func checkPrivate(path string, info fs.FileInfo, mode string) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be read or written by others; run: chmod %s %s", path, mode, path)
	}
	return nil
}

// giveToOwner gives a file to the owner of a folder, where the administrator works
// for another user: the server must be able to read it.
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

// lockWhole waits for the lock of a file, which ends with the file.
func lockWhole(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

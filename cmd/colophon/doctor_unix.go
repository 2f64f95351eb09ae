//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// ownerOf is the user whom a file belongs to.
func ownerOf(info fs.FileInfo) (user int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// sameDevice reports whether two paths are on one file system.
func sameDevice(a, b string) bool {
	var one, other syscall.Stat_t
	return syscall.Stat(a, &one) == nil && syscall.Stat(b, &other) == nil && one.Dev == other.Dev
}

// lockHolder looks who has the lock of a database, and does not take it.
func lockHolder(path string) holder {
	file, err := os.Open(path)
	if err != nil {
		return holder{}
	}
	defer file.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock); err != nil {
		return holder{}
	}
	if lock.Type == syscall.F_UNLCK {
		return holder{known: true}
	}
	return holder{known: true, held: true, pid: int(lock.Pid)}
}

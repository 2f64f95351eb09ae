//go:build unix

package safefile

import (
	"io/fs"
	"syscall"
)

// openAtOnce holds flags that open a file without waiting for a writer and without following a
// link.
const openAtOnce = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// hasBits reports whether a file's mode has at least one of the bits.
func hasBits(info fs.FileInfo, bits fs.FileMode) bool { return info.Mode().Perm()&bits != 0 }

// Owner returns the ID of the user who owns a file, if it is known.
func Owner(info fs.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

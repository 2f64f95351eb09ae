//go:build !unix

package safefile

import "io/fs"

// openAtOnce is empty, because the file system has no pipes.
const openAtOnce = 0

// hasBits returns false, because modes do not show the permissions of files on this system.
func hasBits(fs.FileInfo, fs.FileMode) bool { return false }

// Owner returns false, because files have no owners on this system.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }

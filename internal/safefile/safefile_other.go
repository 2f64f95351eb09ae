//go:build !unix

package safefile

import "io/fs"

// openAtOnce is empty: the file system has no pipes.
const openAtOnce = 0

// hasBits returns false, because the mode does not show the permissions of files here.
func hasBits(fs.FileInfo, fs.FileMode) bool { return false }

// Owner returns false, because files have no owners here.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }

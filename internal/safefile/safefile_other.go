//go:build !unix

package safefile

import "io/fs"

// openAtOnce is zero, because the file system on this system has no pipes.
const openAtOnce = 0

// hasBits always returns false, because file modes do not show permissions on this system.
func hasBits(fs.FileInfo, fs.FileMode) bool { return false }

// Owner always returns false for known, because this system does not record the owner of a file as
// a numeric ID.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }

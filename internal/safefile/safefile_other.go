//go:build !unix

package safefile

import "io/fs"

// openAtOnce contains no flags, because opening a file on this system never waits for a writer.
const openAtOnce = 0

// hasBits always returns false, because file modes do not show permissions on this system.
func hasBits(fs.FileInfo, fs.FileMode) bool { return false }

// Owner always returns false for known, because this system does not record the owner of a file as
// a numeric ID.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }

//go:build !unix

package safefile

import "io/fs"

// openAtOnce adds nothing: the file system has no pipes.
const openAtOnce = 0

// hasBits: permissions are those of the folder, which the mode does not show.
func hasBits(fs.FileInfo, fs.FileMode) bool { return false }

// Owner is not known where files have no owners.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }

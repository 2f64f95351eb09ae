//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package folderlock

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockItself does nothing, because these systems cannot lock folders. (On Windows, the only other
// system in use, a lock file cannot be deleted while the lock is held.)
func lockItself(string) (io.Closer, error) { return nil, nil }

// lockFiles returns files unchanged, because on these systems only administrators can create
// symbolic links.
func lockFiles(files vfs.FS) vfs.FS { return files }

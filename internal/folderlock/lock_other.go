//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package folderlock

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockItself has no lock for a folder here. (On Windows, the one other system
// in use, a lock file that is held cannot be deleted.)
func lockItself(string) (io.Closer, error) { return nil, nil }

// lockFiles changes nothing here: links are not made by others than the administrator.
func lockFiles(files vfs.FS) vfs.FS { return files }

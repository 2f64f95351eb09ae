//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package folderlock

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockItself does nothing, because these systems have no lock for a folder. (On Windows, the
// only other system in use, a lock file that is held cannot be deleted.)
func lockItself(string) (io.Closer, error) { return nil, nil }

// lockFiles changes nothing, because on these systems only administrators can create links.
func lockFiles(files vfs.FS) vfs.FS { return files }

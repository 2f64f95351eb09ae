//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package folderlock

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockItself does nothing on systems that cannot lock folders. Windows is the only one in use.
// There, the lock file is enough, because it cannot be deleted while it is locked.
func lockItself(string) (io.Closer, error) { return nil, nil }

// lockFiles returns files unchanged. It need not protect against symbolic links, because only
// administrators can create them on Windows.
func lockFiles(files vfs.FS) vfs.FS { return files }

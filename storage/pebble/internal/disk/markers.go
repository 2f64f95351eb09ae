package disk

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// MarkerSyncFS syncs the database's folder before Pebble creates a marker file in it. The name of a
// marker file says which manifest is in use. Pebble creates a manifest and syncs it, creates the
// marker, and then syncs the folder once for both. If power is lost before that sync, a file system
// that reorders directory entries can show the marker without its manifest, and the database cannot
// be opened.
type MarkerSyncFS struct{ vfs.FS }

// Create implements vfs.FS.
func (m MarkerSyncFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(m.PathBase(name), "marker.") {
		if err := SyncDir(m.FS, m.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return m.FS.Create(name, category)
}

// Unwrap implements vfs.FS.
func (m MarkerSyncFS) Unwrap() vfs.FS { return m.FS }

package disk

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// MarkerFS adds a sync that Pebble omits. The name of a marker file says which manifest is in use.
// Pebble creates a manifest and syncs it, creates the marker, and then syncs the folder once for
// both. If power is lost before that sync, a file system that reorders directory entries can show
// the marker without its manifest, and the database cannot be opened. MarkerFS therefore syncs the
// folder before it creates a marker.
type MarkerFS struct{ vfs.FS }

// Create implements vfs.FS.
func (m MarkerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(m.PathBase(name), "marker.") {
		if err := SyncFolder(m.FS, m.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return m.FS.Create(name, category)
}

// Unwrap implements vfs.FS.
func (m MarkerFS) Unwrap() vfs.FS { return m.FS }

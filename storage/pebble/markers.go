package pebble

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS keeps an order that Pebble leaves to the file system. Its marker
// files say by their names which manifest is in force; Pebble makes a manifest
// and syncs it, makes the marker, and then syncs the folder once for both. After
// a loss of power in between, a file system that does not keep the order of
// names may show the marker without its manifest, and the database would be
// lost, at a mere restart. Here the folder is synced before each marker.
type markerFS struct{ vfs.FS }

// Create implements vfs.FS.
func (m markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(m.PathBase(name), "marker.") {
		if err := syncFolder(m.FS, m.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return m.FS.Create(name, category)
}

// Unwrap implements vfs.FS.
func (m markerFS) Unwrap() vfs.FS { return m.FS }

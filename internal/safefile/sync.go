package safefile

import (
	"errors"
	"os"
	"runtime"
)

// syncsFolders reports whether folders can be synced. Windows cannot sync folders, but its file
// system journals name changes.
const syncsFolders = runtime.GOOS != "windows"

// SyncDir makes creations, renames, and removals in a folder durable.
func SyncDir(dir string) error {
	if !syncsFolders {
		return nil
	}
	return syncOpened(os.Open(dir))
}

// SyncDirIn is like SyncDir, but syncs a folder inside root.
func SyncDirIn(root *os.Root, name string) error {
	if !syncsFolders {
		return nil
	}
	return syncOpened(root.Open(name))
}

func syncOpened(d *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

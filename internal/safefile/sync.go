package safefile

import (
	"errors"
	"os"
	"path/filepath"
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

// MkdirAll durably creates a folder and its missing parents. Only their owner can use them. It does
// nothing if the folder exists.
func MkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { // succeeds if another process has just created the folder
		return err
	}
	return SyncDir(parent)
}

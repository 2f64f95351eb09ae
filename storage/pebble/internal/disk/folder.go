package disk

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// MakeDir creates dir and its missing parents, durably, and returns the canonical path of dir. Two
// paths to one folder can therefore use the same lock.
func MakeDir(files vfs.FS, dir string) (string, error) {
	if vfs.Root(files) == vfs.Default {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		dir = absolute
	}
	var parents []string // folders that do not exist yet, innermost first
	for at := dir; ; at = files.PathDir(at) {
		if _, err := files.Stat(at); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		parent := files.PathDir(at)
		if parent == at {
			break
		}
		parents = append(parents, parent)
	}
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, parent := range parents {
		if err := SyncDir(files, parent); err != nil {
			return "", err
		}
	}
	if vfs.Root(files) == vfs.Default {
		return filepath.EvalSymlinks(dir)
	}
	return dir, nil
}

// SyncDir syncs the folder dir, so that the names of its files are durable.
func SyncDir(files vfs.FS, dir string) error {
	folder, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

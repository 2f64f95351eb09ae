package safefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace durably and atomically replaces the contents of the named file.
func Replace(name string, text []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", name, err)
		}
	}()
	// The temporary name is unique, because two processes can write the same file at the same time,
	// and the user can have files of their own in the folder.
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails if the file has been renamed, which does not matter
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}

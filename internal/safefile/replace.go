package safefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace replaces a file durably and atomically.
func Replace(name string, text []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", name, err)
		}
	}()
	// The temporary name is new each time, because two processes can write the same file at once,
	// and the user can have files of their own in the folder.
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails if the file was renamed
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}

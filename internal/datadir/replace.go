package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"colophon/ledger"
)

// ReplaceFile replaces a file, durably: by the new one or, whatever happens, not at all.
func ReplaceFile(name string, text []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", name, err)
		}
	}()
	// A new name each time: two may write the same file at once, and in a folder of the
	// user's no name is ours to take.
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once it has its name
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return ledger.SyncDir(filepath.Dir(name))
}

package main

import (
	"errors"
	"io/fs"
	"os"

	"colophon/storage"
	"colophon/storage/pebble"
)

// madeFolder is what a start makes of a data folder that has no database yet: a
// restore wants a folder without one.
type madeFolder struct {
	data      string
	folder    bool // the folder was made
	databases bool // and what is in it, the database first
}

// hasDatabase reports whether there is a database in a data folder, or may be.
func hasDatabase(data string) bool {
	_, err := os.Stat(databaseDir(data))
	return !errors.Is(err, fs.ErrNotExist)
}

// makeFolder makes a data folder where there is none.
func makeFolder(data string) (madeFolder, error) {
	_, err := os.Stat(data)
	made := madeFolder{data: data, folder: errors.Is(err, fs.ErrNotExist), databases: !hasDatabase(data)}
	return made, os.MkdirAll(data, 0o700)
}

// remove removes what was made, once it is closed, if it holds no ledger. Keys and marks
// stay.
func (m madeFolder) remove() error {
	if !m.databases {
		return nil
	}
	// Another server may have come for the folder as soon as it was closed.
	lock, err := pebble.LockFolder(databaseDir(m.data))
	if errors.Is(err, storage.ErrInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	errs := []error{os.RemoveAll(spoolDir(m.data)), os.RemoveAll(snapshots(m.data).dir), os.RemoveAll(databaseDir(m.data)), lock.Close()}
	if m.folder {
		_ = os.Remove(m.data) // unless there is more in it
	}
	return errors.Join(errs...)
}

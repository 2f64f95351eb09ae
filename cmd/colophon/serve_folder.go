package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/ledger"
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

// checkForeign refuses a folder without a ledger in which there is what no start, token
// or restore puts there: somebody's work. Making a file system leaves lost+found, and
// names that begin with a dot are left by systems.
func checkForeign(data string) error {
	if hasDatabase(data) {
		return nil
	}
	files, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cli.Refused("data: %w", err)
	}
	ours := []string{
		filepath.Base(databaseDir(data)), // another server may just have begun
		filepath.Base(indexDir(data)), filepath.Base(spoolDir(data)), filepath.Base(snapshots(data).dir), filepath.Base(restoring(data)),
		filepath.Base(keyFiles(data).Dir), filepath.Base(markFiles(data).Dir), filepath.Base(accessDir(data)), "lost+found",
	}
	for _, file := range files {
		if !slices.Contains(ours, file.Name()) && !strings.HasPrefix(file.Name(), ".") {
			return cli.Refused("the folder %s holds no ledger, and other things (there is %q); name an empty or a new folder with --data", data, file.Name())
		}
	}
	return nil
}

// makeFolder makes a data folder where there is none.
func makeFolder(data string) (madeFolder, error) {
	_, err := os.Stat(data)
	made := madeFolder{data: data, folder: errors.Is(err, fs.ErrNotExist), databases: !hasDatabase(data)}
	return made, os.MkdirAll(data, 0o700)
}

// note is what the banner says of the folder beside its name.
func (m madeFolder) note() string {
	if m.databases {
		return "  (new)"
	}
	return ""
}

// newKeyNote says where the signing key of a new ledger is, unless it was given in a
// variable.
func newKeyNote(data string) string {
	path := keyFiles(data).Path(ledger.Default)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return ", and the key that signs it: keep a copy of " + path
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

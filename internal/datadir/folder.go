package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/internal/folderlock"
	"colophon/ledger"
	"colophon/storage"
)

// Folder is what a start makes of a data folder that has no database yet: a
// restore wants a folder without one.
type Folder struct {
	data      string
	folder    bool // the folder was made
	databases bool // and what is in it, the database first
}

// HasDatabase reports whether there is a database in a data folder, or may be.
func HasDatabase(data string) bool {
	_, err := os.Stat(Database(data))
	return !errors.Is(err, fs.ErrNotExist)
}

// CheckForeign refuses a folder without a ledger in which there is what no start, token
// or restore puts there: the work of someone else. Making a file system leaves lost+found, and
// names that begin with a dot are left by systems.
func CheckForeign(data string) error {
	if HasDatabase(data) {
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
		filepath.Base(Database(data)), // another server may just have begun
		filepath.Base(Index(data)), filepath.Base(Spool(data)), filepath.Base(SnapshotsOf(data).Dir), filepath.Base(Restoring(data)),
		filepath.Base(Keys(data).Dir), filepath.Base(Marks(data).Dir), filepath.Base(Access(data)), "lost+found",
	}
	for _, file := range files {
		if !slices.Contains(ours, file.Name()) && !strings.HasPrefix(file.Name(), ".") {
			return cli.Refused("the folder %s holds no ledger, and other things (there is %q); name an empty or a new folder with --data", data, file.Name())
		}
	}
	return nil
}

// Make makes a data folder where there is none.
func Make(data string) (Folder, error) {
	_, err := os.Stat(data)
	made := Folder{data: data, folder: errors.Is(err, fs.ErrNotExist), databases: !HasDatabase(data)}
	return made, os.MkdirAll(data, 0o700)
}

// Note is what the banner says of the folder beside its name.
func (m Folder) Note() string {
	if m.databases {
		return "  (new)"
	}
	return ""
}

// NewKeyNote says where the signing key of a new ledger is, unless it was given in a
// variable.
func NewKeyNote(data string) string {
	path := Keys(data).Path(ledger.Default)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return ", and the key that signs it: keep a copy of " + path
}

// Remove removes what was made, once it is closed, if it holds no ledger. Keys and marks
// stay.
func (m Folder) Remove() error {
	if !m.databases {
		return nil
	}
	// Another server may have come for the folder as soon as it was closed.
	lock, err := folderlock.Take(Database(m.data))
	if errors.Is(err, storage.ErrInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	errs := []error{os.RemoveAll(Spool(m.data)), os.RemoveAll(SnapshotsOf(m.data).Dir), os.RemoveAll(Database(m.data)), lock.Close()}
	if m.folder {
		_ = os.Remove(m.data) // unless there is more in it
	}
	return errors.Join(errs...)
}

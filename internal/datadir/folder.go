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
	"colophon/internal/safefile"
	"colophon/ledger"
	"colophon/storage"
)

// Creation records what existed before Create, so that Undo can clean up after a failed start.
// Without Undo, a leftover database would prevent a restore into the folder.
type Creation struct {
	data      string
	folder    bool // the data folder was created
	databases bool // the data folder had no database before Create
}

// HasDatabase reports whether a data folder has a database. If this cannot be determined, it
// returns true.
func HasDatabase(data string) bool {
	_, err := os.Stat(DatabaseFolder(data))
	return !errors.Is(err, fs.ErrNotExist)
}

// HasExternalStore reports whether the log of a data folder is stored in another database.
func HasExternalStore(data string) bool {
	_, err := os.Stat(ExternalStoreMarker(data))
	return err == nil
}

// CheckNotPublishedCopy returns an error if the data folder belongs to a server that runs with
// --from.
func CheckNotPublishedCopy(data string) error {
	if _, err := os.Stat(PublishedCopyFolder(data)); err == nil {
		return cli.ExitErrorf(cli.ExitUsage, "the folder %s has a published copy of a log: start the server with --read-only --from URL, or name another folder with --data", data)
	}
	return nil
}

// CheckPublishedCopy returns an error if the data folder of a server that runs with --from contains a log of its own
// instead of a published copy.
func CheckPublishedCopy(data string) error {
	if HasDatabase(data) || HasExternalStore(data) {
		return cli.ExitErrorf(cli.ExitUsage, "the folder %s belongs to a server that writes its own log, so it cannot be used with --from; name another folder with --data", data)
	}
	return nil
}

// ExternalStoreError returns the error for a data folder whose log is in another database. The
// error says what to do.
func ExternalStoreError(data string) error {
	if _, err := os.Stat(MovedDatabaseFolder(data)); err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "the log of the folder %s is in another database; name that database with --store or COLOPHON_STORE", data)
	}
	return cli.ExitErrorf(cli.ExitUsage, "the log of the folder %s was moved to another database; name that database with --store or COLOPHON_STORE. "+
		"To undo the move before anything is written to that database, run colophon migrate --undo --from %s --to URL. To move the log back later, run colophon migrate --from URL --to %s", data, data, data)
}

// CheckNoDatabase returns an error if the data folder of a server that runs with --store contains a
// log of its own.
func CheckNoDatabase(data string) error {
	if HasDatabase(data) {
		return cli.ExitErrorf(cli.ExitUsage, "the folder %s has its own log; name another folder with --data, omit --store, or move the log into the database with colophon migrate", data)
	}
	return nil
}

// CheckExternalStore returns an error if the data folder does not belong to a server that runs with
// --store.
func CheckExternalStore(data string) error {
	if err := CheckNoDatabase(data); err != nil {
		return err
	}
	if !HasExternalStore(data) {
		return cli.ExitErrorf(cli.ExitUsage, "%s is not the data folder of a server that runs with --store; name that server's data folder with --data", data)
	}
	return nil
}

// CheckNoRestore returns an error if a restore into the data folder is running. A restore that starts
// later notices the files that a server creates.
func CheckNoRestore(data string) error {
	lock, err := folderlock.Take(RestoreFolder(data))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, storage.ErrInUse):
		return cli.ExitErrorf(cli.ExitInUse, "a restore into the folder %s is running; start the server when it has finished", data)
	case err != nil:
		return err
	}
	return lock.Close()
}

// CheckNoForeignFiles returns an error if the folder has no database but contains files that Colophon did not
// create. It ignores lost+found, which exists in new file systems, and names that begin with a dot, which
// operating systems leave behind.
func CheckNoForeignFiles(data string) error {
	if HasDatabase(data) {
		return nil
	}
	files, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cli.FileStateErrorf("data: %w", err)
	}
	ours := []string{
		filepath.Base(DatabaseFolder(data)), // another server that is starting may just have created it
		filepath.Base(ExternalStoreMarker(data)), filepath.Base(PublishedCopyFolder(data)), filepath.Base(IncomingDatabaseFolder(data)), filepath.Base(MovedDatabaseFolder(data)),
		filepath.Base(IndexFolder(data)), filepath.Base(SpoolFolder(data)), filepath.Base(SnapshotFolderOf(data).Dir), filepath.Base(RestoreFolder(data)),
		filepath.Base(KeyFiles(data).Dir), filepath.Base(HighWaterMarkFiles(data).Dir), filepath.Base(TokenFolder(data)), filepath.Base(WebhookFolder(data)), "lost+found",
	}
	for _, file := range files {
		if !slices.Contains(ours, file.Name()) && !strings.HasPrefix(file.Name(), ".") {
			return cli.FileStateErrorf("the folder %s contains no ledger but contains other files (for example %q); name an empty or new folder with --data", data, file.Name())
		}
	}
	return nil
}

// Create durably creates a data folder if it does not exist.
func Create(data string) (Creation, error) {
	_, err := os.Stat(data)
	made := Creation{data: data, folder: errors.Is(err, fs.ErrNotExist), databases: !HasDatabase(data)}
	return made, safefile.MkdirAll(data)
}

// BannerSuffix returns the text that follows the folder's name in the startup banner.
func (m Creation) BannerSuffix() string {
	if m.databases {
		return "  (new)"
	}
	return ""
}

// DefaultKeyNotice returns the part of the startup banner that says where the default ledger's new
// signing key is stored. It returns "" if an environment variable holds the key.
func DefaultKeyNotice(data string) string {
	path := KeyFiles(data).Path(ledger.DefaultName)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return ", and the key that signs it: keep a copy of " + path
}

// Undo undoes Create after a first start that failed. It removes the new database, but keeps keys
// and high-water marks. The database must be closed and must contain no ledger.
func (m Creation) Undo() error {
	if !m.databases {
		return nil
	}
	// Another server may have opened the folder since it was closed.
	lock, err := folderlock.Take(DatabaseFolder(m.data))
	if errors.Is(err, storage.ErrInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	errs := []error{os.RemoveAll(SpoolFolder(m.data)), os.RemoveAll(SnapshotFolderOf(m.data).Dir), os.RemoveAll(DatabaseFolder(m.data)), lock.Close()}
	if m.folder {
		_ = os.Remove(m.data) // fails if the folder is not empty
	}
	return errors.Join(errs...)
}

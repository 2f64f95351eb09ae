package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/storage"
	"colophon/storage/pebble"
)

// folder is a data folder. Its log is in one of these subfolders:
//   - db: a server is allowed to start on the folder
//   - incoming: the log is being copied into the folder
//   - db.moved: the log has been moved away
//
// If the folder contains a subfolder named store, the log is in another database.
type folder struct {
	console  *cli.Console
	data     string
	lock     io.Closer // lock on the subfolder store; nil if there is no such subfolder
	database *pebble.Database
}

func (f *folder) String() string { return "the folder " + f.data }

// exists reports whether a path exists. If this cannot be determined, it returns true.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// take locks the folder, so that no server whose log is in another database can use it.
func (f *folder) take() (err error) {
	if err := datadir.CheckPermissions(f.data); err != nil {
		return err
	}
	if f.lock == nil && datadir.HasExternalStore(f.data) {
		if f.lock, err = folderlock.Take(datadir.ExternalStoreMarker(f.data)); err != nil {
			return datadir.ExplainOpenError(err, f.data)
		}
	}
	return nil
}

func (f *folder) open(ctx context.Context, dir string) (storage.Database, error) {
	database, err := pebble.Open(ctx, pebble.Config{Dir: dir, Logger: f.console.WarningLogger(), RemoveUnusedCopies: datadir.SnapshotFolderOf(f.data).RemoveLeftoverCopy})
	if err != nil {
		return nil, datadir.ExplainOpenError(err, f.data)
	}
	f.database = database
	return database, nil
}

func (f *folder) openSource(ctx context.Context) (storage.Database, error) {
	if err := f.take(); err != nil {
		return nil, err
	}
	switch {
	case datadir.HasDatabase(f.data) && exists(datadir.MovedDatabaseFolder(f.data)):
		return nil, cli.ExitErrorf(cli.ExitUsage, "%s contains the remains of an earlier move; remove or rename that folder first", datadir.MovedDatabaseFolder(f.data))
	case datadir.HasDatabase(f.data):
		return f.open(ctx, datadir.DatabaseFolder(f.data))
	case exists(datadir.MovedDatabaseFolder(f.data)):
		return f.open(ctx, datadir.MovedDatabaseFolder(f.data))
	}
	return nil, cli.ExitErrorf(cli.ExitUsage, "%s has no database; name the data folder with --from", f.data)
}

// hold does nothing, because the engine already locks an open database.
func (f *folder) hold(context.Context, place) error { return nil }

func (f *folder) moved(context.Context) (bool, error) { return !datadir.HasDatabase(f.data), nil }

func (f *folder) openTarget(ctx context.Context, _ place, resume bool) (storage.Database, bool, error) {
	if err := datadir.CheckNoForeignFiles(f.data); err != nil {
		return nil, false, err
	}
	if resume && !datadir.HasDatabase(f.data) && !exists(datadir.IncomingDatabaseFolder(f.data)) {
		return nil, false, errMovedElsewhere
	}
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		return nil, false, err
	}
	if err := f.take(); err != nil {
		return nil, false, err
	}
	if datadir.HasDatabase(f.data) {
		database, err := f.open(ctx, datadir.DatabaseFolder(f.data))
		return database, true, err
	}
	if err := os.MkdirAll(datadir.IncomingDatabaseFolder(f.data), 0o700); err != nil {
		return nil, false, err
	}
	database, err := f.open(ctx, datadir.IncomingDatabaseFolder(f.data))
	return database, false, err
}

// rename renames the folder of the database. It keeps the database open, so that no server can
// open it in the meantime. It closes the database only if the system cannot rename an open
// folder.
func (f *folder) rename(from, to string) error {
	if !exists(from) && exists(to) { // an earlier run has renamed it
		return nil
	}
	if err := os.Rename(from, to); err != nil {
		if err := f.closeDatabase(); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return safefile.SyncDir(f.data)
}

// mark durably creates and locks the folder whose presence means that the log is in another
// database.
func (f *folder) mark() error {
	if err := os.MkdirAll(datadir.ExternalStoreMarker(f.data), 0o700); err != nil {
		return err
	}
	if err := safefile.SyncDir(f.data); err != nil {
		return err
	}
	return f.take()
}

// unmark unlocks and durably removes the folder that mark creates.
func (f *folder) unmark() error {
	if err := f.unlock(); err != nil {
		return err
	}
	if err := os.RemoveAll(datadir.ExternalStoreMarker(f.data)); err != nil {
		return err
	}
	return safefile.SyncDir(f.data)
}

func (f *folder) leave(context.Context, place) error {
	if err := f.mark(); err != nil {
		return fmt.Errorf("marking %s as moved: %w", f, err)
	}
	return f.rename(datadir.DatabaseFolder(f.data), datadir.MovedDatabaseFolder(f.data))
}

func (f *folder) arrive(context.Context) error {
	if err := f.rename(datadir.IncomingDatabaseFolder(f.data), datadir.DatabaseFolder(f.data)); err != nil {
		return err
	}
	return f.unmark()
}

func (f *folder) unarrive(ctx context.Context, _ place) (storage.Database, error) {
	if err := f.mark(); err != nil {
		return nil, err
	}
	if err := f.rename(datadir.DatabaseFolder(f.data), datadir.IncomingDatabaseFolder(f.data)); err != nil {
		return nil, err
	}
	if f.database != nil {
		return f.database, nil
	}
	return f.open(ctx, datadir.IncomingDatabaseFolder(f.data))
}

func (f *folder) unleave(context.Context) error {
	if err := f.rename(datadir.MovedDatabaseFolder(f.data), datadir.DatabaseFolder(f.data)); err != nil {
		return err
	}
	return f.unmark()
}

func (f *folder) tokens() access.TokenStore {
	return access.TokenStore{Dir: datadir.TokenFolder(f.data), Now: time.Now}
}

func (f *folder) closeDatabase() error { return closeHeld(&f.database) }

func (f *folder) unlock() error { return closeHeld(&f.lock) }

func (f *folder) close() error { return errors.Join(f.closeDatabase(), f.unlock()) }

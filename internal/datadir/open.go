package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"colophon/internal/cli"
	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/pebble"
)

// Open opens the database of a data folder. The database must exist, and no other process may be
// using it.
func Open(ctx context.Context, c *cli.Console, data string) (*pebble.Database, error) {
	return OpenWithConfig(ctx, c, data, pebble.Config{RemoveUnusedCopies: SnapshotFolderOf(data).RemoveLeftoverCopy})
}

// ExplainOpenError adds advice and an exit code to an error from opening a data folder.
func ExplainOpenError(err error, data string) error {
	switch {
	case errors.Is(err, storage.ErrInUse):
		return cli.ExitErrorf(cli.ExitInUse, "another process is using the data folder %s; stop that process, or choose another folder with --data", data)
	case errors.Is(err, ledger.ErrDamaged), errors.Is(err, storage.ErrDamaged):
		return cli.ExitErrorf(cli.ExitDamaged, "%w\nNothing was changed. Run %q to find the first damage, and restore the folder from a backup", err, "colophon fsck --data "+data)
	case errors.Is(err, storage.ErrNoSpace):
		return cli.ExitErrorf(cli.ExitFailed, "%w\nNothing was changed. Free space on the file system of %s", err, data)
	case errors.Is(err, syscall.EROFS):
		return cli.ExitErrorf(cli.ExitFailed, "%w\nThe file system of %s is read-only: mount it for writing, or copy the folder to a writable file system", err, data)
	case errors.Is(err, storage.ErrUnknownFormat):
		return cli.ExitErrorf(cli.ExitFailed, "%w; use the version of colophon that wrote the database", err)
	case errors.Is(err, ledger.ErrMarkWithoutLedger):
		return cli.ExitErrorf(cli.ExitDamaged, "%w\nThe high-water marks are in %s", err, HighWaterMarkFiles(data).Dir)
	case errors.Is(err, ledger.ErrKeyInUse), errors.Is(err, ledger.ErrOriginInUse):
		return cli.ExitErrorf(cli.ExitFailed, "%w\nNothing was changed. If both ledgers have signed checkpoints, keep a copy of the folder as evidence. The keys are in %s", err, KeyFiles(data).Dir)
	case errors.Is(err, ledger.ErrKeyWithoutLedger):
		return cli.ExitErrorf(cli.ExitDamaged, "%w\nThe keys are in %s", err, KeyFiles(data).Dir)
	case errors.Is(err, storage.ErrNotFound):
		return cli.ExitErrorf(cli.ExitFailed, "%w\nA ledger cannot sign without its key: restore the key file from a backup", err)
	}
	return err
}

// OpenWithConfig is like Open, but opens the database with config, after setting its Dir and
// Logger. If files are damaged, the error wraps storage.ErrDamaged.
func OpenWithConfig(ctx context.Context, c *cli.Console, data string, config pebble.Config) (*pebble.Database, error) {
	config.Dir, config.Logger = DatabaseFolder(data), c.WarningLogger()
	if HasExternalStore(data) {
		return nil, ExternalStoreError(data)
	}
	if _, err := os.Stat(config.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, cli.ExitErrorf(cli.ExitUsage, "%s has no database; name the data folder with --data", data)
	}
	if err := CheckPermissions(data); err != nil {
		return nil, err
	}
	database, err := pebble.Open(ctx, config)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, cli.ExitErrorf(cli.ExitUsage, "%s has no ledger; name the data folder with --data", data)
	case errors.Is(err, storage.ErrDamaged):
		return nil, err
	case err != nil:
		return nil, ExplainOpenError(err, data)
	}
	return database, nil
}

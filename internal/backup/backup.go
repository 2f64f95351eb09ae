// Package backup backs up a data folder, even while a server is using it, and restores a data
// folder from a backup.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/internal/migrate"
	"colophon/internal/remote"
	"colophon/storage"
	"colophon/storage/pebble"
)

// Options holds the flags of the backup command.
type Options struct {
	// DataFolder is the folder to back up. BackupFolder is the folder that receives the backup.
	DataFolder, BackupFolder string
	// StoreURL is the URL of the database that contains the log, or "" if the log is in the data folder.
	StoreURL    string
	Server      remote.Options // server that makes a copy of the database if it has the data folder open
	IncludeKeys bool           // also back up the signing keys
	KeepCount   int            // number of backups to keep, including this one; 0 means all
}

// Run makes a backup, with the help of the server if one is running, and then removes old backups.
// Its errors carry an exit code.
func Run(ctx context.Context, c *cli.Console, o Options) (err error) {
	switch {
	case o.BackupFolder == "":
		return cli.ExitErrorf(cli.ExitUsage, "--to is missing: name a folder for the backups, on another disk")
	case o.KeepCount < 0:
		return cli.ExitErrorf(cli.ExitUsage, "--keep: must not be negative")
	}
	if err := o.checkPlace(); err != nil {
		return err
	}
	if err := datadir.CheckPermissions(o.DataFolder); err != nil { // checked before any other file is read
		return err
	}
	store, copies := Store{Dir: o.BackupFolder}, datadir.SnapshotFolderOf(o.DataFolder)
	release, err := lockBackup(store, copies)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	erasing, err := takeSnapshot(ctx, c, o, copies)
	if err != nil {
		return err
	}
	made, err := writeBackup(ctx, c, o, store, copies.DatabasePath())
	if errors.Is(err, syscall.ENOSPC) {
		return cli.ExitErrorf(cli.ExitFailed, "%w\nThe backup is incomplete and cannot be restored. Free some space in %s and run backup again; it will reuse the files already copied", err, o.BackupFolder)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s: %d bytes copied, %d of %s were already stored\n", made.name, made.copied, made.shared, cli.FormatCount(uint64(len(made.manifest.Files)), "file"))
	for _, l := range made.manifest.Ledgers {
		fmt.Fprintf(c.Out, "  %s\n", l)
	}
	for _, l := range made.manifest.Ledgers {
		if l.archived.EndSeq > 0 {
			c.PrintErrf("ledger %s: the entries below %d are not in the backup, only in the published copy at %s; back up the published copy too", l.Name, l.archived.EndSeq, l.archived.URL)
		}
	}
	if erasing > 0 {
		c.PrintErrf("this backup may still contain %d erased texts: make another backup in a minute, and remove this one", erasing)
	}
	return store.Prune(o.KeepCount, made.counted, made.ignored)
}

// checkPlace returns an error if the data folder does not match the options. If o.StoreURL is
// empty, the folder must contain the database; otherwise, the folder must not contain a log of its
// own.
func (o Options) checkPlace() error {
	if o.StoreURL != "" {
		return datadir.CheckExternalStore(o.DataFolder)
	}
	if datadir.HasExternalStore(o.DataFolder) {
		return datadir.ExternalStoreError(o.DataFolder)
	}
	if _, err := os.Stat(datadir.DatabaseFolder(o.DataFolder)); err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%s has no database: %w; name the data folder with --data", o.DataFolder, err)
	}
	return nil
}

// lockBackup locks the store and the snapshot folder so that no other backup uses them. Calling release
// unlocks both and removes the snapshot.
func lockBackup(store Store, copies datadir.SnapshotFolder) (release func() error, err error) {
	if err := store.CreateFolders(); err != nil {
		return nil, err
	}
	there, err := folderlock.Take(store.Dir)
	if errors.Is(err, storage.ErrInUse) {
		return nil, cli.ExitErrorf(cli.ExitInUse, "another backup to %s is running; run backup again when it has finished", store.Dir)
	}
	if err != nil {
		return nil, err
	}
	here, err := copies.Lock()
	if errors.Is(err, storage.ErrInUse) {
		err = cli.ExitErrorf(cli.ExitInUse, "another backup of this data folder is running; run backup again when it has finished")
	}
	if err != nil {
		return nil, errors.Join(err, there.Close())
	}
	return func() error { return errors.Join(copies.RemoveCopy(), here.Close(), there.Close()) }, nil
}

// takeSnapshot makes a snapshot of the database, or asks the server that is using the database to make
// it. erasing is the number of erased texts that the snapshot may still contain. The snapshot is always
// in the same folder, which did not exist before. A malicious server therefore cannot make the backup
// command read or remove another folder.
func takeSnapshot(ctx context.Context, c *cli.Console, o Options, copies datadir.SnapshotFolder) (erasing int, err error) {
	if o.StoreURL != "" {
		if err := os.Mkdir(copies.CopyPath(), 0o700); err != nil {
			return 0, err
		}
		return 0, migrate.TakeSnapshot(ctx, c, o.StoreURL, copies.DatabasePath(), datadir.TokenFolder(copies.CopyPath()))
	}
	database, err := datadir.Open(ctx, c, o.DataFolder)
	if err == nil {
		erasing, err = copies.CopyDatabase(ctx, database)
		return erasing, errors.Join(err, database.Close())
	}
	if exit := (*cli.ExitError)(nil); !errors.As(err, &exit) || exit.Code != cli.ExitInUse {
		return 0, err
	}
	server, err := o.Server.Connect(c)
	if err != nil {
		return 0, err
	}
	made, err := server.Server.MakeSnapshot(ctx)
	if err != nil {
		return 0, fmt.Errorf("the data folder %s is in use, and the server did not provide a copy of the database: %w", o.DataFolder, server.ExplainFatal(err))
	}
	if _, err := os.Stat(copies.DatabasePath()); err != nil {
		return 0, cli.ExitErrorf(cli.ExitUsage, "the server at %s does not use the data folder %s: %w; use --server to name the server that uses the folder", o.Server.URL, o.DataFolder, err)
	}
	return int(made.PendingErasures), nil
}

// madeBackup describes a complete backup.
type madeBackup struct {
	name     string
	manifest Manifest
	copied   int64 // number of bytes copied
	shared   int   // number of files that the store already contained

	counted, ignored []string // names of the earlier backups, as Store.ClassifyBackups returns them
}

// writeBackup copies the snapshot and the other files that belong to the backup. It writes the manifest
// last. A backup that is interrupted therefore has no manifest, and the next backup reuses the files that
// were copied.
func writeBackup(ctx context.Context, c *cli.Console, o Options, store Store, snapshot string) (made madeBackup, err error) {
	access := datadir.TokenFolder(o.DataFolder)
	if o.StoreURL != "" {
		access = datadir.TokenFolder(filepath.Dir(snapshot))
	}
	sources, err := backupSources(o, snapshot, access)
	if err != nil {
		return made, err
	}
	var total int64
	for _, s := range sources {
		total += s.Info.Size()
	}
	bar := cli.NewProgress(c, total, "copying", progressbar.OptionShowBytes(true))
	defer bar.Finish()
	for _, s := range sources {
		if ctx.Err() != nil {
			return made, cli.ExitErrorf(cli.ExitFailed, "interrupted; the backup is incomplete. Run backup again to continue")
		}
		f, copied, err := store.Add(s)
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(s.Name, "keys/") {
			return made, errKeysChanged
		}
		if err != nil {
			return made, fmt.Errorf("backing up %s: %w", s.Name, err)
		}
		if made.copied += copied; copied == 0 {
			made.shared++
		}
		made.manifest.Files = append(made.manifest.Files, f)
		bar.Add(int(s.Info.Size()))
	}
	// Opening the snapshot changes it, which does not matter because its files have already been
	// copied.
	database, err := pebble.Open(ctx, pebble.Config{Dir: snapshot, Logger: c.WarningLogger()})
	if err != nil {
		return made, err
	}
	made.manifest.Ledgers, err = InspectLedgers(ctx, database)
	if err := errors.Join(err, database.Close()); err != nil {
		return made, err
	}
	if err := made.manifest.checkKeys(store); err != nil {
		return made, err
	}
	made.manifest.Version = ManifestVersion
	now := time.Now()
	made.counted, made.ignored, err = store.ClassifyBackups(now, func(m *Manifest) bool {
		trusted, err := keptKeys(c, o.DataFolder, m)
		return err == nil && m.Authenticate(trusted) == nil
	})
	if err != nil {
		return made, err
	}
	store.warnIgnored(c, made.ignored)
	if made.manifest.CreatedAt, err = nextTime(now, made.counted); err != nil {
		return made, err
	}
	unsigned, err := made.manifest.Sign(datadir.SigningKeys(c, o.DataFolder))
	if err != nil {
		return made, fmt.Errorf("signing the backup: %w", err)
	}
	warnUnsigned(c, unsigned)
	made.name, err = store.WriteManifest(&made.manifest)
	made.counted = append(made.counted, made.name)
	return made, err
}

// Package backup copies a data folder while its server runs, and makes a data folder from
// such a copy.
package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/internal/remote"
	"colophon/storage"
	"colophon/storage/pebble"
)

// Options is the command line of backup.
type Options struct {
	Data, To string
	Server   remote.Options
	Keys     bool
	Keep     int
}

func Run(ctx context.Context, c *cli.Console, o Options) (err error) {
	switch {
	case o.To == "":
		return cli.Exitf(cli.ExitUsage, "--to is missing: name a folder for the backups, on another disk")
	case o.Keep < 0:
		return cli.Exitf(cli.ExitUsage, "--keep: must not be negative")
	}
	if _, err := os.Stat(datadir.Database(o.Data)); err != nil {
		return cli.Exitf(cli.ExitUsage, "there is no database in %s; name the data folder with --data: %w", o.Data, err)
	}
	if err := datadir.Check(o.Data); err != nil { // a server may have it
		return err
	}
	store, copies := Store{Dir: o.To}, datadir.SnapshotsOf(o.Data)
	release, err := lockBackup(store, copies)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	erasing, err := takeSnapshot(ctx, c, o, copies)
	if err != nil {
		return err
	}
	made, err := writeBackup(ctx, c, o, store, copies.Database())
	if errors.Is(err, syscall.ENOSPC) {
		return cli.Exitf(cli.ExitFailed, "%w\nThe backup is incomplete and does not count. Make room in %s and run backup again: it goes on from there", err, o.To)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s: %d bytes copied, %d of %s were there\n", made.name, made.copied, made.shared, cli.Counted(uint64(len(made.manifest.Files)), "file"))
	for _, l := range made.manifest.Ledgers {
		fmt.Fprintf(c.Out, "  %s\n", l)
	}
	if erasing > 0 {
		c.Say("%d erased texts may still be in this backup: make another in a minute, and remove this one", erasing)
	}
	return store.Prune(o.Keep, made.counted, made.ignored)
}

// lockBackup keeps other backups out of both folders until release is called, which
// removes the copy.
func lockBackup(store Store, copies datadir.Snapshots) (release func() error, err error) {
	if err := store.Make(); err != nil {
		return nil, err
	}
	there, err := folderlock.Take(store.Dir)
	if errors.Is(err, storage.ErrInUse) {
		return nil, cli.Exitf(cli.ExitInUse, "another backup to %s is under way", store.Dir)
	}
	if err != nil {
		return nil, err
	}
	here, err := copies.Lock()
	if errors.Is(err, storage.ErrInUse) {
		err = cli.Exitf(cli.ExitInUse, "another backup of this data folder is under way")
	}
	if err != nil {
		return nil, errors.Join(err, there.Close())
	}
	return func() error { return errors.Join(copies.Remove(), here.Close(), there.Close()) }, nil
}

// takeSnapshot makes a copy of the database: by its server, if one runs. What answers
// in its place gets nothing removed or read: the copy has one name, and was not there.
func takeSnapshot(ctx context.Context, c *cli.Console, o Options, copies datadir.Snapshots) (erasing int, err error) {
	database, err := datadir.Open(ctx, c, o.Data)
	if err == nil {
		erasing, err = copies.Make(ctx, database)
		return erasing, errors.Join(err, database.Close())
	}
	if exit := (*cli.ExitError)(nil); !errors.As(err, &exit) || exit.Code != cli.ExitInUse {
		return 0, err
	}
	server, err := o.Server.Connect(c)
	if err != nil {
		return 0, err
	}
	made, err := server.Server.Snapshot(ctx)
	if err != nil {
		return 0, fmt.Errorf("a server has the folder %s, and is to make the copy: %w", o.Data, server.Exit(err))
	}
	if _, err := os.Stat(copies.Database()); err != nil {
		return 0, cli.Exitf(cli.ExitUsage, "the server at %s has another data folder than %s: %w", o.Server.URL, o.Data, err)
	}
	return int(made.Erasing), nil
}

// madeBackup is what a backup came to.
type madeBackup struct {
	name     string
	manifest Manifest
	copied   int64 // bytes
	shared   int   // files that were there

	counted, ignored []string // the backups in the folder
}

// writeBackup copies a snapshot, and what else belongs to a backup. The manifest comes
// last: what is cut short before is no backup, and what it has copied the next one uses.
func writeBackup(ctx context.Context, c *cli.Console, o Options, store Store, snapshot string) (made madeBackup, err error) {
	sources, err := backupSources(o, snapshot)
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
			return made, cli.Exitf(cli.ExitFailed, "interrupted; there is no backup yet, and the next goes on from here")
		}
		f, copied, err := store.Add(s)
		if err != nil {
			return made, fmt.Errorf("backing up %s: %w", s.Name, err)
		}
		if made.copied += copied; copied == 0 {
			made.shared++
		}
		made.manifest.Files = append(made.manifest.Files, f)
		bar.Add(int(s.Info.Size()))
	}
	// The snapshot has served: opening it changes it, and not what was copied.
	database, err := pebble.Open(ctx, pebble.Config{Dir: snapshot, Logger: c.Warnings()})
	if err != nil {
		return made, err
	}
	made.manifest.Ledgers, err = Inspect(ctx, database)
	if err := errors.Join(err, database.Close()); err != nil {
		return made, err
	}
	made.manifest.Version = ManifestVersion
	now := time.Now()
	made.counted, made.ignored, err = store.Counted(now, func(m *Manifest) bool {
		trusted, err := keptKeys(c, o.Data, m)
		return err == nil && m.Authenticate(trusted) == nil
	})
	if err != nil {
		return made, err
	}
	store.sayIgnored(c, made.ignored)
	if made.manifest.Made, err = nextTime(now, made.counted); err != nil {
		return made, err
	}
	unsigned, err := made.manifest.Sign(datadir.SigningKeys(c, o.Data))
	if err != nil {
		return made, fmt.Errorf("signing the backup: %w", err)
	}
	sayUnsigned(c, unsigned)
	made.name, err = store.Finish(&made.manifest)
	made.counted = append(made.counted, made.name)
	return made, err
}

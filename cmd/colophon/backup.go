package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/internal/remote"
	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/pebble"
)

// backupOptions is the command line of backup.
type backupOptions struct {
	data, to string
	server   remote.Options
	keys     bool
	keep     int
}

func newBackup(c *cli.Console) *cobra.Command {
	var o backupOptions
	command := &cobra.Command{
		Use:   "backup --to FOLDER",
		Short: "Copy a data folder, while its server runs",
		Long: `Copy the database and the tokens of a data folder to another folder, on the machine of
its server. If a server runs it is asked for a consistent copy (scope admin on all
ledgers), and goes on meanwhile. Only what is not in the folder yet is copied: a table
that several backups have is there once. Head, tree and signature of every ledger and
all that was copied are verified before the backup counts. The ledgers' signing keys
sign its manifest, so that restore can tell it from one that somebody has changed.

Signing keys are not in it, unless --with-keys says so: keep them elsewhere. Nor is the
index, which is derived, nor the high-water mark, which is there to notice a restore.

Content that is erased later stays in the backups of before: --keep removes old ones.

Exit codes: 0 there is a backup, 1 there is none, 2 bad arguments or no such folder,
3 the folder is in use, and no server answers, 4 another backup of it, or to the same
folder, is under way.`,
		Example: `  colophon backup --data ./data --to /backup/colophon
  colophon backup --data ./data --to /backup/colophon --keep 14`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return backup(command.Context(), c, o) },
	}
	o.server.Bind(c, command.Flags())
	command.Flags().StringVar(&o.data, "data", c.Environment("COLOPHON_DATA", "data"), "`folder` of database and keys, or COLOPHON_DATA")
	command.Flags().StringVar(&o.to, "to", "", "`folder` for the backups, made if absent")
	command.Flags().BoolVar(&o.keys, "with-keys", false, "copy the signing keys too: whoever has the backup can sign then")
	command.Flags().IntVar(&o.keep, "keep", 0, "`number` of backups to keep, this one included; default all")
	return command
}

func backup(ctx context.Context, c *cli.Console, o backupOptions) (err error) {
	switch {
	case o.to == "":
		return cli.Exitf(cli.ExitUsage, "--to is missing: name a folder for the backups, on another disk")
	case o.keep < 0:
		return cli.Exitf(cli.ExitUsage, "--keep: must not be negative")
	}
	if _, err := os.Stat(datadir.Database(o.data)); err != nil {
		return cli.Exitf(cli.ExitUsage, "there is no database in %s; name the data folder with --data: %w", o.data, err)
	}
	if err := datadir.Check(o.data); err != nil { // a server may have it
		return err
	}
	store, copies := backupStore{dir: o.to}, datadir.SnapshotsOf(o.data)
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
		return cli.Exitf(cli.ExitFailed, "%w\nThe backup is incomplete and does not count. Make room in %s and run backup again: it goes on from there", err, o.to)
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
	return store.prune(o.keep, made.counted, made.ignored)
}

// lockBackup keeps other backups out of both folders until release is called, which
// removes the copy.
func lockBackup(store backupStore, copies datadir.Snapshots) (release func() error, err error) {
	if err := store.make(); err != nil {
		return nil, err
	}
	there, err := folderlock.Take(store.dir)
	if errors.Is(err, storage.ErrInUse) {
		return nil, cli.Exitf(cli.ExitInUse, "another backup to %s is under way", store.dir)
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
func takeSnapshot(ctx context.Context, c *cli.Console, o backupOptions, copies datadir.Snapshots) (erasing int, err error) {
	database, err := datadir.Open(ctx, c, o.data)
	if err == nil {
		erasing, err = copies.Make(ctx, database)
		return erasing, errors.Join(err, database.Close())
	}
	if exit := (*cli.ExitError)(nil); !errors.As(err, &exit) || exit.Code != cli.ExitInUse {
		return 0, err
	}
	server, err := o.server.Connect(c)
	if err != nil {
		return 0, err
	}
	made, err := server.Server.Snapshot(ctx)
	if err != nil {
		return 0, fmt.Errorf("a server has the folder %s, and is to make the copy: %w", o.data, server.Exit(err))
	}
	if _, err := os.Stat(copies.Database()); err != nil {
		return 0, cli.Exitf(cli.ExitUsage, "the server at %s has another data folder than %s: %w", o.server.URL, o.data, err)
	}
	return int(made.Erasing), nil
}

// madeBackup is what a backup came to.
type madeBackup struct {
	name     string
	manifest manifest
	copied   int64 // bytes
	shared   int   // files that were there

	counted, ignored []string // the backups in the folder
}

// writeBackup copies a snapshot, and what else belongs to a backup. The manifest comes
// last: what is cut short before is no backup, and what it has copied the next one uses.
func writeBackup(ctx context.Context, c *cli.Console, o backupOptions, store backupStore, snapshot string) (made madeBackup, err error) {
	sources, err := backupSources(o, snapshot)
	if err != nil {
		return made, err
	}
	var total int64
	for _, s := range sources {
		total += s.info.Size()
	}
	bar := cli.NewProgress(c, total, "copying", progressbar.OptionShowBytes(true))
	defer bar.Finish()
	for _, s := range sources {
		if ctx.Err() != nil {
			return made, cli.Exitf(cli.ExitFailed, "interrupted; there is no backup yet, and the next goes on from here")
		}
		f, copied, err := store.add(s)
		if err != nil {
			return made, fmt.Errorf("backing up %s: %w", s.name, err)
		}
		if made.copied += copied; copied == 0 {
			made.shared++
		}
		made.manifest.Files = append(made.manifest.Files, f)
		bar.Add(int(s.info.Size()))
	}
	// The snapshot has served: opening it changes it, and not what was copied.
	database, err := pebble.Open(ctx, pebble.Config{Dir: snapshot, Logger: c.Warnings()})
	if err != nil {
		return made, err
	}
	made.manifest.Ledgers, err = inspect(ctx, database)
	if err := errors.Join(err, database.Close()); err != nil {
		return made, err
	}
	made.manifest.Version = manifestVersion
	now := time.Now()
	made.counted, made.ignored, err = store.counted(now, func(m *manifest) bool {
		trusted, err := keptKeys(c, o.data, m)
		return err == nil && m.authenticate(trusted) == nil
	})
	if err != nil {
		return made, err
	}
	store.sayIgnored(c, made.ignored)
	if made.manifest.Made, err = nextTime(now, made.counted); err != nil {
		return made, err
	}
	unsigned, err := made.manifest.sign(datadir.SigningKeys(c, o.data))
	if err != nil {
		return made, fmt.Errorf("signing the backup: %w", err)
	}
	sayUnsigned(c, unsigned)
	made.name, err = store.finish(&made.manifest)
	made.counted = append(made.counted, made.name)
	return made, err
}

// inspect verifies head, tree and signature of every ledger of a database.
func inspect(ctx context.Context, database *pebble.Database) (list []ledgerState, err error) {
	infos, err := database.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		state, err := inspectLedger(ctx, database, info)
		if err != nil {
			return nil, fmt.Errorf("ledger %q: %w", info.Name, err)
		}
		list = append(list, state)
	}
	return list, nil
}

func inspectLedger(ctx context.Context, database *pebble.Database, info storage.Info) (ledgerState, error) {
	state := ledgerState{Name: info.Name, Origin: info.Origin}
	store, err := database.Ledger(ctx, info.Name)
	if err != nil {
		return state, err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return state, err
	}
	keys, err := ledger.StoredKeys(ctx, store)
	if err != nil || keys == nil { // nil: no event, and nothing is signed
		return state, err
	}
	if err := ledger.CheckMark(ctx, store, head.Checkpoint, keys.Verifiers()...); err != nil {
		return state, err
	}
	state.Size, state.Time, state.Checkpoint = head.Size, time.UnixMicro(head.Time).UTC(), string(head.Checkpoint)
	state.VerifierKey = keys.Current().String()
	state.signedBy = []string{state.VerifierKey}
	if previous := keys.Overlapping(); previous != nil {
		state.signedBy = append(state.signedBy, previous.String())
	}
	return state, nil
}

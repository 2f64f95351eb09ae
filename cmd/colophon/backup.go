package main

import (
	"github.com/spf13/cobra"

	"colophon/internal/backup"
	"colophon/internal/cli"
)

func newBackup(c *cli.Console) *cobra.Command {
	var o backup.Options
	var url storeFlag
	command := &cobra.Command{
		Use:   "backup --to FOLDER",
		Short: "Copy a data folder to a backup, with or without a running server",
		Long: `Copy the database and the tokens of a data folder to another folder on the same machine.

If a server runs on the data folder, backup asks it for a consistent copy. This needs a
token with scope admin on all ledgers. The server keeps running. backup copies only files
that the backup folder does not have yet; backups share identical files. A backup is
complete only when backup has verified the head, tree and signature of every ledger, and
all copied files. The signing keys of the ledgers sign the manifest of the backup. With
these signatures, restore detects a changed backup.

A backup has no signing keys unless you give --with-keys; keep copies of them elsewhere.
It has no index, because the index is derived from the log. It has no high-water marks,
because a server uses them to detect that an older state was restored.

With --store, backup reads the log and the tokens from a PostgreSQL database, whose servers
keep running. It first makes a copy in the data folder, which needs as much space as the
log, and every backup copies everything. restore creates a data folder from such a backup,
and migrate moves that folder's ledgers into a database. For large logs, use the database's
own backups.

A backup still has content that is later erased from the ledger. To remove old backups,
use --keep.

Exit codes: 0 the backup is complete, 1 it failed, 2 bad arguments or no such folder, 3
the data folder is in use and no server answers, 4 another backup of the data folder, or
to the same folder, is running.`,
		Example: `  colophon backup --data ./data --to /backup/colophon
  colophon backup --data ./data --to /backup/colophon --keep 14`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.StoreURL = url.value(c, command)
			return backup.Run(command.Context(), c, o)
		},
	}
	o.Server.Bind(c, command.Flags())
	command.Flags().StringVar(&o.DataFolder, "data", c.EnvOr("COLOPHON_DATA", "data"), "`folder` with the database and keys, or COLOPHON_DATA")
	url.bind(command.Flags(), "log")
	command.Flags().StringVar(&o.BackupFolder, "to", "", "`folder` for the backups; created if it does not exist")
	command.Flags().BoolVar(&o.IncludeKeys, "with-keys", false, "copy the signing keys too; with them, anyone who has the backup can sign")
	command.Flags().IntVar(&o.KeepCount, "keep", 0, "`number` of backups to keep, including this one; default all")
	return command
}

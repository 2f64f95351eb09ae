package main

import (
	"github.com/spf13/cobra"

	"colophon/internal/backup"
	"colophon/internal/cli"
)

func newBackup(c *cli.Console) *cobra.Command {
	var o backup.Options
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
		RunE: func(command *cobra.Command, _ []string) error { return backup.Run(command.Context(), c, o) },
	}
	o.Server.Bind(c, command.Flags())
	command.Flags().StringVar(&o.Data, "data", c.Environment("COLOPHON_DATA", "data"), "`folder` of database and keys, or COLOPHON_DATA")
	command.Flags().StringVar(&o.To, "to", "", "`folder` for the backups, made if absent")
	command.Flags().BoolVar(&o.Keys, "with-keys", false, "copy the signing keys too: whoever has the backup can sign then")
	command.Flags().IntVar(&o.Keep, "keep", 0, "`number` of backups to keep, this one included; default all")
	return command
}

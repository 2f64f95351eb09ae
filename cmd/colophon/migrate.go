package main

import (
	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/migrate"
)

func newMigrate(c *cli.Console) *cobra.Command {
	var o migrate.Options
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Move all ledgers between a data folder and a PostgreSQL database",
		Long: `Move all ledgers from a data folder into a PostgreSQL database, or back: entries, tree,
checkpoints, content, idempotency keys, redactions, and settings. Content that was erased
is not copied. The copy is verified as fsck does, and has the same signed head.

Stop the server first. No server starts on the copy until the copy is complete and the
source is marked as moved; from then on, no server starts on the source. If migrate is
interrupted, run it again with the same arguments to continue.

If the source is a folder, it keeps its log as db.moved. The tokens move too. Keys, marks,
and the index stay in the folder, which serve then uses with --store. If the target is a
folder, name the data folder that the server used with the database, because it has the
keys. A new folder needs a copy of that folder's keys and marks.

--undo makes the source valid again, if nothing was written to the target. Put the
password of the database into the variable PGPASSWORD, not on the command line.

Exit codes: 0 the ledgers are moved, 1 they are not, 2 bad arguments, or an unsuitable
folder or database, 4 another process uses the folder, 5 the source is damaged.`,
		Example: `  colophon migrate --from ./data --to postgres://colophon@db.example.org/colophon
  colophon migrate --from postgres://colophon@db.example.org/colophon --to ./data
  colophon migrate --undo --from ./data --to postgres://colophon@db.example.org/colophon`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return migrate.Run(command.Context(), c, o)
		},
	}
	command.Flags().StringVar(&o.Source, "from", "", "data `folder`, or URL of a PostgreSQL database, that has the ledgers")
	command.Flags().StringVar(&o.Target, "to", "", "URL of a PostgreSQL database, or data `folder`, that receives the ledgers")
	command.Flags().BoolVar(&o.Undo, "undo", false, "undo the earlier move with the same --from and --to, if nothing has been written to the target since")
	return command
}

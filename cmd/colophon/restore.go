package main

import (
	"github.com/spf13/cobra"

	"colophon/internal/backup"
	"colophon/internal/cli"
)

func newRestore(c *cli.Console) *cobra.Command {
	var o backup.RestoreOptions
	command := &cobra.Command{
		Use:   "restore --from FOLDER",
		Short: "Create a data folder from a backup",
		Long: `Create a data folder from the newest backup in a folder, or from the one that --backup
names. restore verifies every file, and the head, tree and signature of every ledger.
The data folder must be empty, apart from the folders marks and keys.

A ledger must not continue from a copy that is older than its last checkpoint. Otherwise
receipts would contradict each other, and readers could prove it. So restore has to know
what was signed last. Use one of these:
  the marks of the old data folder: leave the folder "marks" in place, or copy it there
  --seen FILE      the newest checkpoint that an auditor or a witness has, or a copy of
                   GET …/log/checkpoint. Give it once for each ledger
  --newest         you are sure that nothing was signed after the backup was made

If the ledger signed more than the backup holds, restore still creates the data folder.
You can read and verify the ledger, but the server refuses writes to it. Restore a newer
backup, or use a new ledger:
  colophon ledger create NAME
  colophon ledger freeze OLD

A backup is signed with the keys of its ledgers. restore needs trusted keys from another
place: verifier keys (--key), or the signing keys. Put the signing keys into environment
variables, or copy them to the folder "keys" of the data folder first. An attacker who
can change a backup can add tokens and texts to it. So restore refuses a backup that is
not authenticated, unless you state with --unauthenticated that no one else could change
it.

restore leaves out tokens, because tokens that were revoked after the backup would be
valid again. The server accepts no token until you create one (colophon token create).
--with-tokens restores the tokens of the backup; then revoke those again that were
revoked since.

If the backup has no signing keys, copy them to the folder "keys".

Exit codes: 0 the backup is restored, 1 restore failed, or the backup is damaged or not
authentic, 2 bad arguments, no trusted key, or a folder that is not empty, 4 another
restore into the folder is running, 5 the backup is restored, but a ledger signed more
than the backup holds.`,
		Example: `  colophon restore --from /backup/colophon --data ./data --key verifier.key --seen checkpoint.txt`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return backup.Restore(command.Context(), c, o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.BackupFolder, "from", "", "`folder` that contains the backups")
	flags.StringVar(&o.BackupName, "backup", "", "`name` of the backup; the default is the newest backup")
	flags.StringVar(&o.DataFolder, "data", c.EnvOr("COLOPHON_DATA", "data"), "data `folder` to create, or COLOPHON_DATA")
	flags.StringArrayVar(&o.SeenCheckpointFiles, "seen", nil, "`file` with the newest known checkpoint of a ledger; may be repeated")
	flags.BoolVar(&o.AssumeNewestBackup, "newest", false, "confirm that nothing was signed after the backup was made")
	flags.StringArrayVar(&o.TrustedKeys, "key", nil, "verifier `key` that you trust, or a file with keys; every ledger needs one")
	flags.BoolVar(&o.AllowUnauthenticated, "unauthenticated", false, "accept a backup without trusted signatures; use this only if no one else could have changed it")
	flags.BoolVar(&o.IncludeTokens, "with-tokens", false, "restore the tokens too, including those that were revoked after the backup")
	return command
}

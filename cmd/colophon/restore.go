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
		Short: "Make a data folder from a backup",
		Long: `Make a data folder from the newest backup in a folder, or the one that is named. Every
file is verified, and head, tree and signature of every ledger. The data folder must be
empty, but for its marks and keys.

A ledger must not go on from a copy that is older than what it has signed: receipts would
contradict each other, and whoever has one of each can prove it. So restore wants to know
what was signed last:
  the marks of the old data folder: leave the folder "marks" where it is, or copy it there
  --seen FILE      the newest checkpoint that anybody has: an auditor, a witness, a copy
                   of GET …/log/checkpoint. Give it once for each ledger
  --newest         you are sure that nothing was signed after the backup was made

If more was signed than the backup holds, it is restored all the same, and what is in it
can be read and verified; the server then takes no writes to that ledger. Go on with a
newer copy, or with a new ledger:
  colophon ledger create NAME
  colophon ledger freeze OLD

A backup is signed by its ledgers' keys. Restore accepts it by keys that you have from
elsewhere: verifier keys (--key), or the signing keys, which you copy to the folder
"keys" of the data folder first or give in variables. Whoever can change a backup can
put tokens and texts of their own into it, so one that is not authenticated is refused,
unless --unauthenticated says that nobody else could change it.

Tokens are not restored: those that were revoked after the backup would be valid again.
Until you make a new one (colophon token create) no token is accepted. --with-tokens
restores them as they were; revoke again what was revoked since.

Keys that are not in the backup have to be copied to the folder "keys".

Exit codes: 0 it is restored, 1 it is not, or the backup is damaged or not authentic, 2 bad
arguments, no trusted key, or a folder that is not empty, 4 another restore into it is
under way, 5 it is restored, and an older copy of a ledger than the newest.`,
		Example: `  colophon restore --from /backup/colophon --data ./data --key verifier.key --seen checkpoint.txt`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return backup.Restore(command.Context(), c, o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.From, "from", "", "`folder` of the backups")
	flags.StringVar(&o.Backup, "backup", "", "`name` of the backup; default the newest")
	flags.StringVar(&o.Data, "data", c.Environment("COLOPHON_DATA", "data"), "`folder` to make, or COLOPHON_DATA")
	flags.StringArrayVar(&o.Seen, "seen", nil, "`file` with the newest checkpoint of a ledger that anybody has seen")
	flags.BoolVar(&o.Newest, "newest", false, "nothing was signed after the backup was made")
	flags.StringArrayVar(&o.Keys, "key", nil, "verifier `key` that you trust, or a file with keys; give keys for every ledger")
	flags.BoolVar(&o.Unauthenticated, "unauthenticated", false, "take the backup as it is: nobody else could change it")
	flags.BoolVar(&o.Tokens, "with-tokens", false, "restore the tokens too, those that were revoked since included")
	return command
}

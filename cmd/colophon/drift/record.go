package drift

import (
	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/show"
)

// NewShowCommand returns the show command, which prints one record.
func NewShowCommand(c *cli.Console) *cobra.Command {
	d := &commands{Console: c}
	command := &cobra.Command{
		Use:   "show SEQ",
		Short: "Show one record: its members, its hashes, and its content",
		Long: `Show one record, or another event. The tables show the members of the event, the
hashes with the ledger's check of each, and the content. If the token has the scope
content, the first words of the text are shown beside each hash.`,
		Example: `  colophon show 41
  colophon show 41 --json | jq .event`,
		Args: func(command *cobra.Command, args []string) error { return cli.RequireSeqs(command, args, 1) },
		RunE: func(command *cobra.Command, args []string) error {
			return printAnswer(d, command, "/records/"+args[0], d.query(command), func(r *wire.RecordAnswer) error {
				return show.PrintRecord(command.Context(), d.Console, d.texts(), r, d.full)
			})
		},
	}
	command.SetFlagErrorFunc(cli.ExplainSeqFlagError)
	flags := command.Flags()
	d.from.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &d.ledger)
	flags.BoolVar(&d.json, "json", false, "print the server's response as JSON")
	flags.Uint64("as-of", 0, "tree `size` to query; the default is the size of the index")
	d.fullFlag(flags)
	return command
}

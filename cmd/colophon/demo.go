package main

import (
	"errors"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/demo"
	"colophon/internal/remote"
)

func newDemo(c *cli.Console) *cobra.Command {
	var server remote.Options
	var name string
	command := &cobra.Command{
		Use:   "demo",
		Short: "Load a small example into an empty ledger, and answer five questions about it",
		Long: `Load a small example into a ledger of a running server, and answer five questions about
it in words, each with the command that shows more. The example has about a hundred
records: answers of two models with two prompts, run-DAGs, citations of a handbook that
changed, and a story with two builds.

The log keeps what is loaded, so demo refuses a ledger that has other records. A second
demo adds nothing, and prints the answers again. The token needs the scopes write and
read, and content for texts.`,
		Example: `  colophon demo
  colophon ledger create demo && colophon demo --ledger demo`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s, err := server.Connect(c)
			if err != nil {
				return err
			}
			tour := &demo.Tour{Console: c, Ledger: s.Ledger(name)}
			err = tour.Load(command.Context())
			if errors.Is(err, demo.ErrOtherRecords) {
				return cli.ExitErrorf(cli.ExitFailed, "%s: %w; nothing was posted. Create a ledger for the example: colophon ledger create demo && colophon demo --ledger demo", cli.QuoteCell(name), err)
			}
			if err == nil {
				err = tour.PrintAnswers(command.Context())
			}
			return s.ExplainFatal(err)
		},
	}
	server.Bind(c, command.Flags())
	remote.BindLedgerFlag(c, command.Flags(), &name)
	return command
}

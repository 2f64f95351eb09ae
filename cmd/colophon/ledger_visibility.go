package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
)

func (l *ledgerCommand) newPublish() *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "publish NAME",
		Short: "Let everybody read a ledger's transparency log",
		Long: `Let everybody who reaches the server read a ledger's transparency log, without a
token: checkpoint, key, tiles and entries under /log, from web pages too. So
witnesses, monitors and auditors can watch it.

Entries have no content, but they have run ids, labels, names of models and
sources, and hashes: who knows what a short text may be can find out by its hash.
Everything else, records, queries and content, needs a token as before.

What somebody has read stays read: on a terminal the command asks for the name once
more, elsewhere it wants --yes. unpublish ends it for the time to come.`,
		Example: `  colophon ledger publish generations
  colophon ledger publish generations --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if !yes {
				if err := l.Confirm(command.Context(), args[0], "what somebody has read of a published log stays read", "published"); err != nil {
					return err
				}
			}
			return l.show(command, args[0], "public")
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return command
}

func (l *ledgerCommand) newUnpublish() *cobra.Command {
	return &cobra.Command{
		Use:   "unpublish NAME",
		Short: "Keep a ledger's transparency log to those who have a token for it",
		Long: `Keep a ledger's transparency log to those who have a token with the scope log or
read on it, as it is from the beginning. Copies that others have made, and caches
on the way to them, stay.`,
		Example: `  colophon ledger unpublish generations`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return l.show(command, args[0], "private")
		},
	}
}

// show makes the log of a ledger public or private.
func (l *ledgerCommand) show(command *cobra.Command, name, log string) error {
	r := client.Request{Method: http.MethodPut, Path: ledgerPath(name) + "/visibility"}
	return l.change(command, r, wire.VisibilityChange{Log: log})
}

package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
)

func newPing(c *cli.Console) *cobra.Command {
	var server serverOptions
	command := &cobra.Command{
		Use:   "ping",
		Short: "Ask a server whether it answers",
		Long: `Ask a server whether it answers, for whatever watches over its process: a container
has no other program to ask with. It needs no token.

Exit codes: 0 it answers, 1 it answers with a problem, 3 it does not.`,
		Example: `  colophon ping --server https://ledger.example.org`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := newClient(c, server)
			if err != nil {
				return err
			}
			answer, err := client.call(command.Context(), http.MethodGet, "/healthz", nil)
			if err != nil {
				return err
			}
			_, err = c.Out.Write(answer)
			return err
		},
	}
	server.bind(c, command.Flags())
	return command
}

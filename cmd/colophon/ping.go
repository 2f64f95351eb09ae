package main

import (
	"io"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/remote"
)

func newPing(c *cli.Console) *cobra.Command {
	var server remote.Options
	command := &cobra.Command{
		Use:   "ping",
		Short: "Check whether a server responds",
		Long: `Check whether a server responds. Use ping for the health check of a container that has
no other HTTP client. ping needs no token.

Exit codes: 0 the server responds, 1 it responds with an error, 3 it does not respond.`,
		Example: `  colophon ping --server https://ledger.example.org`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s, err := server.Connect(c)
			if err != nil {
				return err
			}
			answer, err := s.Server.Health(command.Context())
			if err != nil {
				return s.ExplainFatal(err)
			}
			_, err = io.WriteString(c.Out, answer)
			return err
		},
	}
	server.Bind(c, command.Flags())
	return command
}

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/internal/cli"
)

// storeFlag is the flag --store of commands that work on the database of a server.
type storeFlag struct{ url string }

func (s *storeFlag) bind(flags *pflag.FlagSet, what string) {
	flags.StringVar(&s.url, "store", "", "`URL` of the PostgreSQL database of the "+what+", as for serve, or COLOPHON_STORE; default the data folder")
}

// value returns the URL; it is empty if the data folder is meant. The variable is not the
// default of the flag, which help prints: it may contain a password.
func (s *storeFlag) value(c *cli.Console, command *cobra.Command) string {
	if !command.Flags().Changed("store") {
		return c.Environment("COLOPHON_STORE", "")
	}
	return s.url
}

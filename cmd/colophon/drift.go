package main

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/ledger"
)

// driftCommand is what the commands about drift share.
type driftCommand struct {
	*cli.Console
	from     remote.Options
	server   *remote.Server // made by the first question
	ledger   string
	json     bool
	all      bool // print all pages, not only the first that has rows
	full     bool // print hashes whole
	anyState bool
}

const driftHelp = `Answer what changed and what caused it (GET /drift/…, /run-dags/… and /paths/… of
the API) as tables. Every answer is taken at one tree size, the same for all its
pages; --as-of asks again what it was at an earlier one.

With --json the server's answers are printed instead, one JSON document a line: of
a list its first page that has rows, with --all every one.`

func newDrift(c *cli.Console) *cobra.Command {
	d := &driftCommand{Console: c}
	command := &cobra.Command{
		Use:   "drift",
		Short: "Show which outputs changed, and what caused it",
		Long:  driftHelp,
		Example: `  colophon drift groups --min-outputs 2
  colophon drift compare 12 40
  colophon drift effects model claude-2 claude-2.1
  colophon drift paths harrow-vale
  colophon drift groups --json --all | jq -c '.rows[]'`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	flags := command.PersistentFlags()
	d.from.Bind(c, flags)
	flags.StringVar(&d.ledger, "ledger", ledger.Default, "`name` of the ledger")
	flags.BoolVar(&d.json, "json", false, "print the server's answers as JSON, one document a line")
	flags.Uint64("as-of", 0, "tree `size` to answer at; default as far as the index has come")
	command.AddCommand(d.newGroups(), d.newShow(), d.newCompare(), d.newTimeline(), d.newEffects(), d.newPaths())
	return command
}

// pageFlags are the flags of what answers page by page.
func (d *driftCommand) pageFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&d.all, "all", false, "print all pages, not only the first")
	flags.Uint("limit", 0, "`rows` of a page, at most; default the server's")
}

// stateFlag is the flag of what leaves out records that are not live.
func (d *driftCommand) stateFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&d.anyState, "any-state", false, "take failed, stale and quarantined records too")
}

// fullFlag is the flag of tables in which hashes are cut.
func (d *driftCommand) fullFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&d.full, "full", false, "print hashes whole, not only their first digits")
}

// query is what the flags that were given ask of the server: they have the names
// of its parameters. One that was not given leaves it to the server.
func (d *driftCommand) query(command *cobra.Command) url.Values {
	q := url.Values{}
	command.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "as-of", "limit", "since", "until", "sort", "min-runs", "min-outputs":
			q.Set(strings.ReplaceAll(f.Name, "-", "_"), f.Value.String())
		}
	})
	if d.anyState {
		q.Set("state", "any")
	}
	return q
}

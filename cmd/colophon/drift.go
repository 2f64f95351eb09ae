package main

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"colophon/ledger"
)

// driftCommand is what the commands about drift share.
type driftCommand struct {
	*console
	server, ledger string
	json, all      bool
	anyState       bool
	limit          uint   // rows of a page; 0 leaves it to the server
	asOf           uint64 // tree size; 0 is as far as the index has come
}

const driftHelp = `Answer what changed and what caused it (GET /drift/…, /run-dags/… and /paths/… of
the API) as tables. Every answer is taken at one tree size, the same for all its
pages; --as-of asks again what it was at an earlier one.

With --json the server's answers are printed as they are, one JSON document for
each page.`

func newDrift(c *console) *cobra.Command {
	d := &driftCommand{console: c}
	command := &cobra.Command{
		Use:   "drift",
		Short: "Show which outputs changed, and what caused it",
		Long:  driftHelp,
		Example: `  colophon drift groups --min-outputs 2
  colophon drift compare 12 40
  colophon drift effects model claude-2 claude-2.1
  colophon drift paths harrow-vale`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	flags := command.PersistentFlags()
	serverFlag(c, flags, &d.server)
	flags.StringVar(&d.ledger, "ledger", ledger.Default, "`name` of the ledger")
	flags.BoolVar(&d.json, "json", false, "print the server's answers as JSON")
	flags.BoolVar(&d.all, "all", false, "print all pages, not only the first")
	flags.BoolVar(&d.anyState, "any-state", false, "take failed, stale and quarantined records too")
	flags.UintVar(&d.limit, "limit", 0, "`rows` of a page, at most; default the server's")
	flags.Uint64Var(&d.asOf, "as-of", 0, "tree `size` to answer at; default as far as the index has come")
	command.AddCommand(d.newGroups(), d.newShow(), d.newCompare(), d.newTimeline(), d.newEffects(), d.newPaths())
	return command
}

// query is what every query of part 4 can be asked.
func (d *driftCommand) query() url.Values {
	q := url.Values{}
	if d.asOf > 0 {
		q.Set("as_of", strconv.FormatUint(d.asOf, 10))
	}
	if d.limit > 0 {
		q.Set("limit", strconv.FormatUint(uint64(d.limit), 10))
	}
	if d.anyState {
		q.Set("state", "any")
	}
	return q
}

// Package drift implements the drift command. Its subcommands print tables of what changed and why.
package drift

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/show"
)

// commands holds the flags that the drift commands share.
type commands struct {
	*cli.Console
	from             remote.Options
	server           *remote.Connection // set by connect
	ledger           string
	json             bool
	all              bool // print all pages, not only the first one that has rows
	full             bool // print hashes in full
	anyState         bool
	text             bool // also compare texts
	mostChangedFirst bool
	textReader       *show.TextReader // set by texts
}

const help = `Show as tables what changed and what caused it. The commands below read GET /drift/…,
/run-dags/…, /citation-sets/…, /paths/…, /producers, /records, /runs/compare, /search, and
/rates of the API.
All pages of an answer are for one tree size. --as-of gives the answer at an earlier tree
size.

With --json, the commands print the server's answers, one JSON document per line. For a
list, they print the first page that has rows or, with --all, every page.`

// New returns the drift command with its subcommands.
func New(c *cli.Console) *cobra.Command {
	d := &commands{Console: c}
	command := &cobra.Command{
		Use:   "drift",
		Short: "Show which outputs changed, and what caused it",
		Long:  help,
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
	remote.BindLedgerFlag(c, flags, &d.ledger)
	flags.BoolVar(&d.json, "json", false, "print the server's responses as JSON, one document per line")
	flags.Uint64("as-of", 0, "tree `size` to query; the default is the size of the index")
	command.AddCommand(d.newGroups(), d.newShow(), d.newCompare(), d.newCompareRuns(), d.newTimeline(), d.newEffects(), d.newGate(), d.newPaths(),
		newUnstable(d), newMismatches(d), newStale(d), newConflicts(d), newDivergence(d), newRunGroups(d), newProducers(d), newSearch(d), newValues(d), newRates(d), newFailures(d))
	return command
}

// pageFlags adds the flags of commands that print lists.
func (d *commands) pageFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&d.all, "all", false, "print all pages, not only the first")
	flags.Uint("limit", 0, "maximum number of `rows` per page; the server sets the default")
}

// bindPeriod adds the flags that restrict rows to a period of time.
func bindPeriod(flags *pflag.FlagSet) {
	cli.AddTimeFlag(flags, "since", "omit everything before this `time`")
	cli.AddTimeFlag(flags, "until", "omit everything at this `time` or later")
}

// stateFlag adds the flag that includes records that are not live.
func (d *commands) stateFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&d.anyState, "any-state", false, "include failed, stale and quarantined records")
}

// fullFlag adds the flag that prints hashes in full rather than shortened.
func (d *commands) fullFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&d.full, "full", false, "print whole hashes, not only their first digits")
}

// query returns the request parameters for the flags that the user set. They have the same names as
// the flags, with underscores instead of hyphens.
func (d *commands) query(command *cobra.Command) url.Values {
	q := url.Values{}
	command.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "as-of", "limit", "since", "until", "step", "sort", "min-runs", "min-outputs":
			q.Set(strings.ReplaceAll(f.Name, "-", "_"), f.Value.String())
		}
	})
	if d.anyState {
		q.Set("state", "any")
	}
	return q
}

// asOf returns the query parameters that make a further request use the same tree size. They
// contain as_of if the user set --as-of, and are empty otherwise.
func (d *commands) asOf(command *cobra.Command) url.Values {
	query := url.Values{}
	if size := d.query(command).Get("as_of"); size != "" {
		query.Set("as_of", size)
	}
	return query
}

package drift

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

func newSearch(d *commands) *cobra.Command {
	command := &cobra.Command{
		Use:   "search TEXT",
		Short: "Find events, hashes, values, and prompts by text",
		Long: `Find what a text can refer to: the number of an event, a hash or its first 8 digits or more,
a run_id, a subject, a project, a source, a producer, a model, or a label (NAME=VALUE, or
the value alone). Prompts, inputs, and questions are found by words at the beginning of their
text, which needs the scope content.

A search looks through the newest prompts, inputs, and questions only, and says so if there
are more.`,
		Example: `  colophon drift search verbose
  colophon drift search 73d89cd8
  colophon drift search 'config=verbose'`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			query := d.query(command)
			query.Set("q", args[0])
			return printAnswer(d, command, "/search", query, func(found *wire.SearchAnswer) error {
				rows := make([][]string, len(found.Rows))
				for i, hit := range found.Rows {
					rows[i] = []string{cli.QuoteCell(hit.Type), d.hash(hit.Value), cli.FormatUint(hit.Seq), nameCell(hit.Name)}
				}
				err := cli.NewTable(d.Out, cli.TextColumn("what"), cli.TextColumn("value"), cli.NumberColumn("event"), cli.TextColumn("name")).WriteRows(rows)
				if len(rows) == 0 {
					d.PrintErrf("the search found no matches")
				}
				if !found.Complete {
					d.PrintErrf("the search covered only part of the ledger; search for a complete hash, or use the filters of GET /records")
				}
				return err
			})
		},
	}
	d.fullFlag(command.Flags())
	return command
}

// nameCell formats the readable name of a hash as a table cell. It returns cli.NoValueCell if name is
// nil.
func nameCell(name *wire.ReadableName) string {
	if name == nil {
		return cli.NoValueCell
	}
	var parts []string
	if name.Label != "" {
		parts = append(parts, cli.QuoteCell(name.Label))
	}
	if name.Words != "" {
		words := `"` + cli.QuoteCell(name.Words)
		if name.Truncated {
			words += "…"
		}
		parts = append(parts, words+`"`)
	}
	return strings.Join(parts, ": ")
}

func newValues(d *commands) *cobra.Command {
	command := &cobra.Command{
		Use:   "values temperature|max_tokens|label",
		Short: "Show the temperatures and limits that runs have, or the names of their labels",
		Long: `Show the values that runs of any state have, each with the first run that has it. The
value that appeared last comes first. Use the values with colophon drift effects. label
lists the names of labels; colophon drift groups --by label:NAME shows the values of one, and --by model and
--by system_prompt_hash those of models and prompts.`,
		Example: `  colophon drift values temperature
  colophon drift values label`,
		ValidArgs: []string{"temperature", "max_tokens", "label"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(command *cobra.Command, args []string) error {
			query := d.query(command)
			query.Set("of", args[0])
			t := cli.NewTable(d.Out, cli.TextColumn(args[0]), cli.NumberColumn("first event"))
			return list(d, command, "/drift/values", query, t, "no run has a value of the requested kind", func(v wire.RunValue) []string {
				return []string{cli.QuoteCell(v.Value), cli.FormatUint(v.Seq)}
			})
		},
	}
	d.pageFlags(command.Flags())
	return command
}

func newRates(d *commands) *cobra.Command {
	command := &cobra.Command{
		Use:   "rates",
		Short: "Count records over time, by their checks and the causes of drift",
		Long: `Show for consecutive periods how many events were recorded, how many records have a wrong
claim, how many IPC records have no output and so cannot be compared, and what caused runs to
differ from the previous live run with the same input.`,
		Example: `  colophon drift rates
  colophon drift rates --since 7d --step 86400`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return printAnswer(d, command, "/rates", d.query(command), func(rates *wire.Rates) error {
				var rows [][]string
				for _, r := range rates.Rows {
					if r.Events == 0 {
						continue
					}
					var causes []string
					for _, cause := range slices.Sorted(maps.Keys(r.Drift)) {
						causes = append(causes, cli.QuoteCell(string(cause))+" "+cli.FormatUint(r.Drift[cause]))
					}
					rows = append(rows, []string{cli.QuoteCell(string(r.Since)), cli.FormatUint(r.Events), cli.FormatUint(r.Mismatches), cli.FormatUint(r.NoOutput), orNoValue(strings.Join(causes, ", "))})
				}
				return cli.NewTable(d.Out, cli.TextColumn("since"), cli.NumberColumn("events"), cli.NumberColumn("mismatches"), cli.NumberColumn("no output"), cli.TextColumn("drift")).WriteRows(rows)
			})
		},
	}
	bindPeriod(command.Flags())
	command.Flags().Uint64("step", 0, "length of a period in `seconds`; by default one that gives at most 60 periods")
	return command
}

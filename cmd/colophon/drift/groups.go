package drift

import (
	"fmt"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// field returns the full name of a field. The user may write prompt or system_prompt for
// system_prompt_hash.
func field(name string) string {
	if name == "prompt" || name == "system_prompt" {
		return "system_prompt_hash"
	}
	return name
}

// groupingHelp lists the fields by which runs can be grouped.
const groupingHelp = "ipc_id, input, input_hash, system_prompt_hash, output_hash, model, ollama_build_hash or label:NAME; prompt is short for system_prompt_hash"

func (d *commands) newGroups() *cobra.Command {
	var by string
	command := &cobra.Command{
		Use:   "groups",
		Short: "Show runs in groups, and how much their outputs agree",
		Long: `Show groups of runs that have a value in common. The group with the latest first run
comes first. For each group, the table has the number of runs and of distinct outputs,
the share of the most common output, the entropy of the outputs in bits, the number of
runs whose output differs from that of the previous run, and the first and last event.

Runs with one ipc_id have the same inputs and settings. If such runs have several
outputs, the model is not deterministic.`,
		Example: `  colophon drift groups --min-outputs 2
  colophon drift groups --by model --sort runs
  colophon drift groups --by label:step --since 30d`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			query := d.query(command)
			by = field(by)
			query.Set("by", by)
			query.Set("names", "true")
			t := cli.NewTable(d.Out, groupColumns(by)...)
			return list(d, command, "/drift/groups", query, t, "no group matches the filters", func(g wire.RunGroup) []string { return d.groupCells(command, by, &g) })
		},
	}
	flags := command.Flags()
	flags.StringVar(&by, "by", "ipc_id", "`field` that the runs have in common: "+groupingHelp)
	flags.Uint64("min-runs", 0, "omit groups with fewer `runs`")
	flags.Uint64("min-outputs", 0, "omit groups with fewer distinct `outputs`")
	cli.AddTimeFlag(flags, "since", "omit groups whose last run was before this `time`")
	cli.AddTimeFlag(flags, "until", "omit groups whose last run was at this `time` or later")
	flags.String("sort", "", "`order`: recent, runs, stability or flips, by values at the current tree size")
	d.pageFlags(flags)
	d.stateFlag(flags)
	return command
}

func groupColumns(by string) []cli.Column {
	return []cli.Column{cli.TextColumn(by), cli.NumberColumn("runs"), cli.NumberColumn("outputs"), cli.NumberColumn("stability"),
		cli.NumberColumn("entropy"), cli.NumberColumn("flips"), cli.NumberColumn("first"), cli.NumberColumn("last"), cli.TextColumn("last recorded")}
}

// groupCells returns a table row for a group.
func (d *commands) groupCells(command *cobra.Command, by string, g *wire.RunGroup) []string {
	value := cli.QuoteCell(g.Value) + d.texts().Excerpt(command.Context(), by, g.Value, g.LastRunSeq)
	if g.Name != nil && g.Name.Label != "" {
		value += " (" + cli.QuoteCell(g.Name.Label) + ")"
	}
	return []string{value, cli.FormatUint(g.Runs), cli.FormatUint(g.DistinctOutputs), cli.FormatPercent(float64(g.Stability)), fmt.Sprintf("%.3f", g.EntropyBits),
		cli.FormatUint(g.Flips), cli.FormatUint(g.FirstRunSeq), cli.FormatUint(g.LastRunSeq), cli.QuoteCell(string(g.LastRunTime))}
}

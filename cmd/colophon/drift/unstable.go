package drift

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

func newUnstable(d *commands) *cobra.Command {
	command := &cobra.Command{
		Use:   "unstable",
		Short: "Show runs with the same conditions and different outputs",
		Long: `Show groups of runs that have one ipc_id (the same input, prompt, model, and settings)
but different outputs. The least stable group comes first. With --as-of, the group with the
latest first run comes first.

The column CAUSES names what changed the output from a run to the next, as drift timeline
does. ipc_id covers neither the citation sets of the runs (evidence) nor their environment.
If only the output differs, the cause is unseeded, stochastic, or
stochastic_or_model_internal.`,
		Example: `  colophon drift unstable
  colophon drift unstable --since 7d`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return unstable(d, command) },
	}
	bindPeriod(command.Flags())
	d.pageFlags(command.Flags())
	return command
}

func unstable(d *commands, command *cobra.Command) error {
	query := d.query(command)
	if !query.Has("as_of") { // the server can sort by stability only at the current tree size
		query.Set("sort", "stability")
	}
	query.Set("by", "ipc_id")
	query.Set("min_outputs", "2")
	t := cli.NewTable(d.Out, append(groupColumns("ipc_id"), cli.TextColumn("causes"))...)
	err := list(d, command, "/drift/groups", query, t, "", func(g wire.RunGroup) []string {
		return append(d.groupCells(command, "ipc_id", &g), causesOf(d, command, g.Value))
	})
	if err != nil || t.RowCount > 0 || d.json {
		return err
	}
	return noUnstable(d, command)
}

// causesOf returns a table cell that lists the distinct causes of changed outputs among the runs of
// a group.
func causesOf(d *commands, command *cobra.Command, ipcID string) string {
	query := d.asOf(command)
	query.Set("ipc_id", ipcID)
	query.Set("limit", "1000")
	page, _, err := fetch[wire.Page[wire.TimelineRow]](d, command, "/drift/timeline", query)
	if err != nil {
		return cli.NoValueCell
	}
	var causes []string
	for _, row := range page.Rows {
		if row.Cause == nil || row.OutputChanged == nil || !*row.OutputChanged {
			continue
		}
		if cause := string(*row.Cause); !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	if page.Next != "" { // runs on later pages can have other causes
		causes = append(causes, "…")
	}
	return orNoValue(strings.Join(causes, ", "))
}

// noUnstable explains why no group is unstable: the runs of each group agree, or no group has two
// runs.
func noUnstable(d *commands, command *cobra.Command) error {
	query := d.query(command)
	query.Del("limit")
	query.Set("by", "ipc_id")
	query.Set("min_runs", "2")
	twice := false
	err := forEachRow(d, command, "/drift/groups", query, func(wire.RunGroup) bool {
		twice = true
		return false
	})
	if err != nil {
		return err
	}
	period := ""
	if query.Has("since") || query.Has("until") {
		period = " in the given period"
	}
	if twice {
		d.PrintErrf("all runs with the same conditions have the same output%s", period)
	} else {
		d.PrintErrf("no two runs have the same conditions%s, so random variation in outputs cannot be measured; run colophon rerun SEQ to repeat a run", period)
	}
	d.sayIncomplete(command, nil)
	return nil
}

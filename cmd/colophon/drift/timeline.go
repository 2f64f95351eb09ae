package drift

import (
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
	"colophon/internal/show"
)

func (d *commands) newTimeline() *cobra.Command {
	command := &cobra.Command{
		Use:   "timeline BY VALUE",
		Short: "Show runs in order, and what changed from each to the next",
		Long: `Show the runs of a group, the oldest first. Each row shows what caused the output to
change since the previous run, and the variables that differ.
BY is ` + groupingHelp + `.`,
		Example: `  colophon drift timeline label:step dialogue
  colophon drift timeline input_hash 73d89cd8242b13df7b3c58219a3ee3bb5a5bbb4d7c83de717d911b829e2f9583 --all`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error { return d.timeline(command, field(args[0]), args[1]) },
	}
	command.ValidArgsFunction = d.completeNames(completion.Groupings, 2)
	d.pageFlags(command.Flags())
	d.stateFlag(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

func (d *commands) timeline(command *cobra.Command, by, value string) error {
	query := d.query(command)
	query.Set(by, value)
	t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("output"), cli.NumberColumn("against"),
		cli.NumberColumn("similar"), cli.NumberColumn("words"), cli.TextColumn("cause"), cli.TextColumn("what differs"))
	query.Set("text", "true")
	query.Set("names", "true")
	err := list(d, command, "/drift/timeline", query, t, "", func(s wire.TimelineRow) []string {
		against, cause := cli.NoValueCell, cli.NoValueCell
		if s.PreviousSeq != nil && s.Cause != nil {
			against, cause = cli.FormatUint(*s.PreviousSeq), cli.QuoteCell(string(*s.Cause))
		}
		similar, words := show.TextChangeCells(s.Text)
		return []string{cli.FormatUint(s.Seq), cli.QuoteCell(string(s.Time)), d.hashOr(s.OutputHash), against, similar, words, cause, d.changes(command, &s)}
	})
	if err == nil && t.RowCount == 0 {
		return d.noRuns(command, by, value)
	}
	return err
}

// changes formats a table cell with the differences between a run and the previous run.
func (d *commands) changes(command *cobra.Command, s *wire.TimelineRow) string {
	if len(s.Differences) == 0 || s.PreviousSeq == nil {
		return cli.NoValueCell
	}
	parts := make([]string, len(s.Differences))
	for i, x := range s.Differences {
		parts[i] = x.Variable + ": " + d.texts().ValueCell(command.Context(), x.Variable, x.A, *s.PreviousSeq, d.full) + " → " + d.texts().ValueCell(command.Context(), x.Variable, x.B, s.Seq, d.full)
	}
	return cli.QuoteCell(strings.Join(parts, ", "))
}

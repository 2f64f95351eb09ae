package drift

import (
	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

func newFailures(d *commands) *cobra.Command {
	var periods bool
	command := &cobra.Command{
		Use:   "failures",
		Short: "Show at which stage run-DAGs failed, also over time",
		Long: `Show how many run-DAGs failed at which stage, by audit mode and shape. A run that was
posted as stages without inputs counts as unknown. With --periods or --step, show the
same for consecutive periods.`,
		Example: `  colophon drift failures
  colophon drift failures --periods --since 7d
  colophon drift failures --step 86400`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			query := d.query(command)
			if periods = periods || query.Has("step"); periods {
				query.Set("periods", "true")
			}
			return printAnswer(d, command, "/run-dags/failures", query, func(counted *wire.FailuresAnswer) error {
				if counted.Total == 0 {
					d.PrintErrf("no run-DAGs were recorded in the selected period")
					return nil
				}
				if !periods {
					return cli.NewTable(d.Out, failureColumns()...).WriteRows(failureRows(nil, counted.Rows))
				}
				var rows [][]string
				for _, period := range counted.Periods {
					rows = append(rows, failureRows([]string{cli.QuoteCell(string(period.Since))}, period.Rows)...)
				}
				return cli.NewTable(d.Out, append([]cli.Column{cli.TextColumn("since")}, failureColumns()...)...).WriteRows(rows)
			})
		},
	}
	bindPeriod(command.Flags())
	d.stateFlag(command.Flags())
	command.Flags().BoolVar(&periods, "periods", false, "count in consecutive periods")
	command.Flags().Uint64("step", 0, "length of a period in `seconds`; by default one that gives at most 60 periods")
	return command
}

func failureColumns() []cli.Column {
	return []cli.Column{cli.TextColumn("failed at"), cli.TextColumn("audit mode"), cli.TextColumn("shape"), cli.NumberColumn("runs")}
}

// failureRows returns one table row per count. Each row begins with the cells in begin.
func failureRows(begin []string, counts []wire.OutcomeCount) (rows [][]string) {
	for _, c := range counts {
		rows = append(rows, append(begin[:len(begin):len(begin)], cli.QuoteOptionalCell(c.FailureStage), cli.QuoteOptionalCell(c.AuditMode), cli.QuoteOptionalCell(c.Shape), cli.FormatUint(c.Count)))
	}
	return rows
}

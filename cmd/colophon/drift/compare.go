package drift

import (
	"strconv"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/show"
)

func (d *commands) newCompare() *cobra.Command {
	command := &cobra.Command{
		Use:   "compare A B",
		Short: "Show what caused the change from one record to another",
		Long: `Show how two records differ and, if their outputs differ, what caused the change. For
two IPC records, compare shows the cause and the variables that differ. For two
run-DAGs, it shows the stages at which they diverge. A and B are the numbers (seq) of the
records.

With --text, compare also shows how the texts differ, word by word: for IPC records the
output, the prompt, and the payload (it prints the first words of the input above them);
for run-DAGs the question and the answer; for path fingerprints the passage, with a warning
if the paths differ. Deleted words are [-red-], inserted words {+green+}. This needs the
scope content.

The table also shows whether a record is not live or claims a wrong hash. The output of
--json does not; use GET /records/SEQ.`,
		Example: `  colophon drift compare 12 40
  colophon drift compare 12 40 --text
  colophon drift compare 12 40 --json`,
		Args: func(command *cobra.Command, args []string) error { return cli.RequireSeqs(command, args, 2) },
		RunE: func(command *cobra.Command, args []string) error { return d.compare(command, args[0], args[1]) },
	}
	command.SetFlagErrorFunc(cli.ExplainSeqFlagError)
	command.Flags().BoolVar(&d.text, "text", false, "show how the texts differ, word by word")
	d.fullFlag(command.Flags())
	return command
}

func (d *commands) compare(command *cobra.Command, a, b string) error {
	recordA, err := d.record(command, a)
	if err != nil {
		return err
	}
	recordB, err := d.record(command, b)
	if err != nil {
		return err
	}
	query := d.query(command)
	query.Set("a", a)
	query.Set("b", b)
	switch {
	case recordA.Kind != recordB.Kind:
		return cli.ExitErrorf(cli.ExitFailed, "event %s is of kind %s, but event %s is of kind %s; use two records of the same kind", a, recordA.Kind, b, recordB.Kind)
	case recordA.Kind == wire.KindIPCRecord:
		if !d.json {
			query.Set("text", "true") // needed for the values of payload members
		}
		err = printAnswer(d, command, "/drift/attribution", query, func(x *wire.DriftAttribution) error {
			return show.PrintIPCChange(command.Context(), d.Console, d.texts(), &x.IPCChange, recordA, recordB, d.full)
		})
	case recordA.Kind == wire.KindRunDAG:
		err = printAnswer(d, command, "/run-dags/compare", query, func(x *wire.RunDAGComparison) error {
			return show.PrintRunDAGChange(d.Console, &x.RunDAGChange, recordA, recordB)
		})
	case recordA.Kind == wire.KindPathFingerprint && d.text:
	default:
		return cli.ExitErrorf(cli.ExitFailed, "events %s and %s are of kind %s, which cannot be compared; use two IPC records, two run-DAGs, or, with --text, two path fingerprints", a, b, recordA.Kind)
	}
	if err != nil || !d.text {
		return err
	}
	switch {
	case d.json:
	case recordA.Kind == wire.KindIPCRecord:
		err = show.PrintInputs(command.Context(), d.Console, d.texts(), recordA, recordB)
	case recordA.Kind == wire.KindPathFingerprint:
		err = show.PrintPathChange(d.Console, recordA, recordB)
	}
	if err != nil {
		return err
	}
	return d.compareTexts(command, a, b, recordA.Kind)
}

func (d *commands) newCompareRuns() *cobra.Command {
	command := &cobra.Command{
		Use:   "compare-runs A B",
		Short: "Show how the records of two runs differ, including their citations",
		Long: `Show how two runs differ: what caused the change between their IPC records, where their
run-DAGs diverge, and which chunks their citation sets add and remove. A and B are
run_ids. For each kind, compare-runs uses the latest live record of each run.

The command also names cited sources whose chunks changed between the runs.`,
		Example: `  colophon drift compare-runs answer/1 answer/2
  colophon drift compare-runs answer/1 answer/2 --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error { return d.compareRuns(command, args[0], args[1]) },
	}
	d.stateFlag(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

func (d *commands) compareRuns(command *cobra.Command, a, b string) error {
	query := d.query(command)
	query.Set("a", a)
	query.Set("b", b)
	return printAnswer(d, command, "/runs/compare", query, func(x *wire.RunsComparison) error {
		d.anyState = false // GET /records/{seq} does not accept the parameter state
		return show.PrintRunsComparison(command.Context(), d.Console, d.texts(), x, func(seq uint64) (*wire.RecordAnswer, error) {
			return d.record(command, strconv.FormatUint(seq, 10))
		}, d.full)
	})
}

// record fetches one of the records to be compared.
func (d *commands) record(command *cobra.Command, seq string) (*wire.RecordAnswer, error) {
	event, _, err := fetch[wire.RecordAnswer](d, command, "/records/"+seq, d.query(command))
	return event, err
}

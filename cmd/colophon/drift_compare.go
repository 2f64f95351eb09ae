package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

func (d *driftCommand) newCompare() *cobra.Command {
	command := &cobra.Command{
		Use:   "compare A B",
		Short: "Show what caused the change from one record to another",
		Long: `Show how two records differ and, if their outputs differ, what caused the change. For
two IPC records, compare shows the cause and the variables that differ. For two
run-DAGs, it shows the stages at which they diverge. A and B are the seqs of the
records.

With --text, compare also shows how the texts differ, word by word: of IPC records the
output, the prompt, and the payload; of run-DAGs the question and the answer; of path
fingerprints the passage. Deleted words are [-red-], inserted words {+green+}. This needs
the scope content.

The table says if a record is not live or claims a wrong hash. The output of --json does
not; GET /records/SEQ does.`,
		Example: `  colophon drift compare 12 40
  colophon drift compare 12 40 --text
  colophon drift compare 12 40 --json`,
		Args: func(command *cobra.Command, args []string) error { return requireSeqs(command, args, 2) },
		RunE: func(command *cobra.Command, args []string) error { return d.compare(command, args[0], args[1]) },
	}
	command.SetFlagErrorFunc(explainSeqFlag)
	command.Flags().BoolVar(&d.text, "text", false, "show how the texts differ, word by word")
	d.fullFlag(command.Flags())
	return command
}

// explainSeqFlag explains a flag of a command whose arguments are seqs.
func explainSeqFlag(command *cobra.Command, err error) error {
	if number, found := cli.NegativeNumber(err); found {
		return notASeq(number)
	}
	return cli.ExplainFlag(command, err)
}

// requireSeqs requires n arguments that are seqs.
func requireSeqs(command *cobra.Command, args []string, n int) error {
	if err := cobra.ExactArgs(n)(command, args); err != nil {
		return err
	}
	for _, arg := range args {
		if _, err := strconv.ParseUint(arg, 10, 64); err != nil {
			return notASeq(arg)
		}
	}
	return nil
}

func notASeq(argument string) error {
	return cli.Exitf(cli.ExitUsage, "%q is not a record number; give the seq of a record", argument)
}

func (d *driftCommand) compare(command *cobra.Command, a, b string) error {
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
		return cli.Exitf(cli.ExitFailed, "event %s is of kind %s and event %s of kind %s: give two records of one kind", a, recordA.Kind, b, recordB.Kind)
	case recordA.Kind == wire.KindIPCRecord:
		err = d.compareRuns(command, query, recordA, recordB)
	case recordA.Kind == wire.KindRunDAG:
		err = d.compareDAGs(command, query, recordA, recordB)
	case recordA.Kind == wire.KindPathFingerprint && d.text:
	default:
		return incomparable(a, b, recordA.Kind)
	}
	if err != nil || !d.text {
		return err
	}
	return d.compareTexts(command, a, b, recordA.Kind)
}

func incomparable(a, b string, kind wire.Kind) error {
	return cli.Exitf(cli.ExitFailed, "events %s and %s are of kind %s, which cannot be compared; give two IPC records or two run-DAGs, or two path fingerprints and --text", a, b, kind)
}

// record fetches a record to compare.
func (d *driftCommand) record(command *cobra.Command, seq string) (*wire.RecordRow, error) {
	event, _, err := fetchDrift[wire.RecordRow](d, command, "/records/"+seq, d.query(command))
	return event, err
}

// printCaveats prints which of the records are not live, and which have claims that do not hold.
// A comparison with such a record can mislead.
func (d *driftCommand) printCaveats(a, b *wire.RecordRow) error {
	events := []*wire.RecordRow{a, b}
	if a.Seq == b.Seq {
		events = events[:1]
	}
	for _, event := range events {
		if event.State != "" && event.State != wire.Live {
			if _, err := fmt.Fprintf(d.Out, "Event %d is %s, not live.\n", event.Seq, cli.Plain(string(event.State))); err != nil {
				return err
			}
		}
		if err := printNames(d.Out, fmt.Sprintf("Claims of event %d that do not hold", event.Seq), mismatches(event.Checks)); err != nil {
			return err
		}
	}
	return nil
}

// mismatches returns the fields whose claims do not hold, sorted.
func mismatches(checks wire.Checks) []string {
	var fields []string
	for field, check := range checks {
		if check.Result == wire.Mismatch {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

// compareRuns prints the server's attribution of a change between two IPC records.
func (d *driftCommand) compareRuns(command *cobra.Command, query url.Values, recordA, recordB *wire.RecordRow) error {
	answer, text, err := fetchDrift[wire.Attribution](d, command, "/drift/attribution", query)
	if err != nil {
		return err
	}
	if d.json {
		return cli.PrintJSONLine(d.Out, text)
	}
	a, b := query.Get("a"), query.Get("b")
	if _, err := fmt.Fprintf(d.Out, "From event %s to event %s: %s\nCause: %s.\n", a, b, cli.Plain(answer.Says), cli.Plain(string(answer.Cause))); err != nil {
		return err
	}
	if err := d.printCaveats(recordA, recordB); err != nil || len(answer.Differences) == 0 {
		return err
	}
	rows := make([][]string, len(answer.Differences))
	for i, x := range answer.Differences {
		rows[i] = []string{cli.Plain(x.Variable), d.value(command, x.Variable, x.A, recordA.Seq), d.value(command, x.Variable, x.B, recordB.Seq)}
	}
	if _, err := fmt.Fprintln(d.Out); err != nil {
		return err
	}
	return cli.NewTable(d.Out, cli.TextColumn("variable"), cli.TextColumn("event "+a), cli.TextColumn("event "+b)).Write(rows)
}

// compareDAGs prints where two run-DAGs diverge.
func (d *driftCommand) compareDAGs(command *cobra.Command, query url.Values, recordA, recordB *wire.RecordRow) error {
	answer, text, err := fetchDrift[wire.RunComparison](d, command, "/run-dags/compare", query)
	if err != nil {
		return err
	}
	if d.json {
		return cli.PrintJSONLine(d.Out, text)
	}
	a, b := query.Get("a"), query.Get("b")
	if _, err := fmt.Fprintf(d.Out, "From event %s to event %s: %s\n", a, b, cli.Plain(answer.Says)); err != nil {
		return err
	}
	for _, names := range []struct {
		what string
		list []string
	}{
		{"Differing stages", answer.DifferingStages},
		{"Only in event " + a, answer.OnlyInA},
		{"Only in event " + b, answer.OnlyInB},
		{"Differing cache dimensions", answer.DifferingDimensions},
	} {
		if err := printNames(d.Out, names.what, names.list); err != nil {
			return err
		}
	}
	return d.printCaveats(recordA, recordB)
}

func printNames(out io.Writer, what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	cells := make([]string, len(names))
	for i, name := range names {
		cells[i] = cli.Plain(name)
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", what, strings.Join(cells, ", "))
	return err
}

// plainValue returns the JSON value of a variable as a table cell.
func plainValue(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return cli.Plain(string(value)) // a number
	}
	return cli.PlainOr(text)
}

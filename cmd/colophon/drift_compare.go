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
		Short: "Say what caused the change from one record to another",
		Long: `Say what differs between two events and, where the output changed, what caused
it. Of two IPC records: the variables that differ, and the cause. Of two run-DAGs:
the stages at which they diverge. A and B are seqs.

Where one of them is not live, or claims a hash that does not hold, the table says
so; with --json, GET /records/SEQ does.`,
		Example: `  colophon drift compare 12 40
  colophon drift compare 12 40 --json`,
		Args: seqs,
		RunE: func(command *cobra.Command, args []string) error { return d.compare(command, args[0], args[1]) },
	}
	command.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		if number, found := cli.NegativeNumber(err); found {
			return noSeq(number)
		}
		return cli.ExplainFlag(command, err)
	})
	return command
}

// seqs demands two arguments that are seqs.
func seqs(command *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(2)(command, args); err != nil {
		return err
	}
	for _, arg := range args {
		if _, err := strconv.ParseUint(arg, 10, 64); err != nil {
			return noSeq(arg)
		}
	}
	return nil
}

func noSeq(argument string) error {
	return cli.Exitf(cli.ExitUsage, "%q: must be the seq of a record, a number", argument)
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
		return cli.Exitf(cli.ExitFailed, "event %s is of kind %s and event %s of kind %s: only records of one kind can be compared", a, recordA.Kind, b, recordB.Kind)
	case recordA.Kind == wire.KindIPCRecord:
		return d.compareRuns(command, query, recordA, recordB)
	case recordA.Kind == wire.KindRunDAG:
		return d.compareDAGs(command, query, recordA, recordB)
	}
	return cli.Exitf(cli.ExitFailed, "events %s and %s are of kind %s: IPC records and run-DAGs can be compared", a, b, recordA.Kind)
}

// record is an event that is to be compared.
func (d *driftCommand) record(command *cobra.Command, seq string) (*wire.RecordRow, error) {
	event, _, err := askDrift[wire.RecordRow](d, command, "/records/"+seq, d.query(command))
	return event, err
}

// caveats prints what there is to know of two events before one believes what
// comparing them says.
func (d *driftCommand) caveats(a, b *wire.RecordRow) error {
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
		if err := printNames(d.Out, fmt.Sprintf("Event %d claims what does not hold", event.Seq), mismatches(event.Checks)); err != nil {
			return err
		}
	}
	return nil
}

// mismatches are the fields whose claims do not hold, in order.
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

// compareRuns says what the server's attribution of two IPC records says.
func (d *driftCommand) compareRuns(command *cobra.Command, query url.Values, recordA, recordB *wire.RecordRow) error {
	answer, text, err := askDrift[wire.Attribution](d, command, "/drift/attribution", query)
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
	if err := d.caveats(recordA, recordB); err != nil || len(answer.Differences) == 0 {
		return err
	}
	rows := make([][]string, len(answer.Differences))
	for i, x := range answer.Differences {
		rows[i] = []string{cli.Plain(x.Variable), plainValue(x.A), plainValue(x.B)}
	}
	if _, err := fmt.Fprintln(d.Out); err != nil {
		return err
	}
	return cli.NewTable(d.Out, cli.TextColumn("variable"), cli.TextColumn("event "+a), cli.TextColumn("event "+b)).Write(rows)
}

// compareDAGs says where two run-DAGs diverge.
func (d *driftCommand) compareDAGs(command *cobra.Command, query url.Values, recordA, recordB *wire.RecordRow) error {
	answer, text, err := askDrift[wire.RunComparison](d, command, "/run-dags/compare", query)
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
	return d.caveats(recordA, recordB)
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

// plainValue is a value of a variable as a cell.
func plainValue(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return cli.Plain(string(value)) // a number
	}
	return cli.PlainOr(text)
}

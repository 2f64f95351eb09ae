package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"colophon/ledger/record"
)

// variableChange is a variable that two runs have different values of.
type variableChange struct {
	Variable string
	A, B     json.RawMessage // text, number or null
}

func (d *driftCommand) newCompare() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Say what caused the change from one record to another",
		Long: `Say what differs between two events and, where the output changed, what caused
it. Of two IPC records: the variables that differ, and the cause. Of two run-DAGs:
the stages at which they diverge. A and B are seqs.`,
		Example: `  colophon drift compare 12 40
  colophon drift compare 12 40 --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error { return d.compare(command, args[0], args[1]) },
	}
}

func (d *driftCommand) compare(command *cobra.Command, a, b string) error {
	kindA, err := d.kind(command, a)
	if err != nil {
		return err
	}
	kindB, err := d.kind(command, b)
	if err != nil {
		return err
	}
	query := d.query()
	query.Set("a", a)
	query.Set("b", b)
	switch {
	case kindA != kindB:
		return exitf(exitFailed, "event %s is of kind %s and event %s of kind %s: only records of one kind can be compared", a, kindA, b, kindB)
	case kindA == record.IPCRecord:
		return d.compareRuns(command, query)
	case kindA == record.RunDAG:
		return d.compareDAGs(command, query)
	}
	return exitf(exitFailed, "events %s and %s are of kind %s: IPC records and run-DAGs can be compared", a, b, kindA)
}

// kind is that of an event.
func (d *driftCommand) kind(command *cobra.Command, seq string) (record.Kind, error) {
	var event struct{ Kind record.Kind }
	_, err := d.ask(command, "/records/"+url.PathEscape(seq), nil, &event)
	return event.Kind, err
}

// compareRuns says what the server's attribution of two IPC records says.
func (d *driftCommand) compareRuns(command *cobra.Command, query url.Values) error {
	var answer struct {
		Says        string
		Cause       string
		Differences []variableChange
	}
	if err := d.get(command, "/drift/attribution", query, &answer); err != nil || d.json {
		return err
	}
	a, b := query.Get("a"), query.Get("b")
	if _, err := fmt.Fprintf(d.out, "From event %s to event %s: %s\nCause: %s.\n", a, b, plain(answer.Says), plain(words(answer.Cause))); err != nil {
		return err
	}
	if len(answer.Differences) == 0 {
		return nil
	}
	rows := make([][]string, len(answer.Differences))
	for i, x := range answer.Differences {
		rows[i] = []string{plain(words(x.Variable)), plainValue(x.A), plainValue(x.B)}
	}
	if _, err := fmt.Fprintln(d.out); err != nil {
		return err
	}
	return newTable(d.out, column{name: "variable"}, column{name: "event " + a}, column{name: "event " + b}).write(rows)
}

// compareDAGs says where two run-DAGs diverge.
func (d *driftCommand) compareDAGs(command *cobra.Command, query url.Values) error {
	var answer struct {
		Sentence   string
		Differing  []string `json:"differing_stages"`
		OnlyInA    []string `json:"only_in_a"`
		OnlyInB    []string `json:"only_in_b"`
		Dimensions []string `json:"differing_dimensions"`
	}
	if err := d.get(command, "/run-dags/compare", query, &answer); err != nil || d.json {
		return err
	}
	a, b := query.Get("a"), query.Get("b")
	if _, err := fmt.Fprintf(d.out, "From event %s to event %s: %s\n", a, b, plain(answer.Sentence)); err != nil {
		return err
	}
	for _, names := range []struct {
		what string
		list []string
	}{
		{"Differing stages", answer.Differing},
		{"Only in event " + a, answer.OnlyInA},
		{"Only in event " + b, answer.OnlyInB},
		{"Differing cache dimensions", answer.Dimensions},
	} {
		if err := printNames(d.out, names.what, names.list); err != nil {
			return err
		}
	}
	return nil
}

func printNames(out io.Writer, what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	cells := make([]string, len(names))
	for i, name := range names {
		cells[i] = plain(name)
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", what, strings.Join(cells, ", "))
	return err
}

// words is a name of the API as people write it.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// plainValue is a value of a variable as a cell.
func plainValue(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return plain(string(value)) // a number
	}
	return plainOr(text)
}

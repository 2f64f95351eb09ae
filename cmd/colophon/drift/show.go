package drift

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
)

func (d *commands) newShow() *cobra.Command {
	command := &cobra.Command{
		Use:   "show BY VALUE",
		Short: "Show the outputs and the runs of one group",
		Long: `Show one group of runs: its outputs with the number of runs of each, and its runs.
BY is ` + groupingHelp + `.
VALUE is the value that the runs of the group have in common, as drift groups shows it.`,
		Example: `  colophon drift show model claude-2
  colophon drift show label:step dialogue --all`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error { return d.show(command, field(args[0]), args[1]) },
	}
	command.ValidArgsFunction = d.completeNames(completion.Groupings, 2)
	d.pageFlags(command.Flags())
	d.stateFlag(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

func (d *commands) show(command *cobra.Command, by, value string) error {
	path, query := groupPath(by, value), d.query(command)
	first, text, err := fetch[wire.GroupAnswer](d, command, path, query)
	if errors.Is(err, client.ErrNotFound) {
		return d.noRuns(command, by, value)
	}
	if err != nil {
		return err
	}
	// Request all pages at the same tree size.
	query.Set("as_of", cli.FormatUint(first.AsOf))
	if d.json {
		return d.showJSON(command, path, query, first, text)
	}
	g := first.Group
	if _, err := fmt.Fprintf(d.Out, "%s %s: %s, %s, stability %s, %s, event %d to %d\n\n",
		cli.QuoteCell(by), cli.QuoteCell(value)+d.texts().Excerpt(command.Context(), by, value, g.LastRunSeq), cli.FormatCount(g.Runs, "run"), cli.FormatCount(g.DistinctOutputs, "different output"), cli.FormatPercent(float64(g.Stability)),
		cli.FormatCount(g.Flips, "flip"), g.FirstRunSeq, g.LastRunSeq); err != nil {
		return err
	}
	if err := d.showOutputs(command, path, query, first); err != nil {
		return err
	}
	return d.showRuns(command, path, query, first)
}

// noRuns returns an error that explains why a group has no live runs. If it has no runs in any
// other state either, noRuns reports the server's error.
func (d *commands) noRuns(command *cobra.Command, by, value string) error {
	query := d.query(command)
	query.Set("state", "any")
	if _, _, err := fetch[wire.GroupAnswer](d, command, groupPath(by, value), query); err != nil {
		if d.json || !errors.Is(err, client.ErrNotFound) {
			return err
		}
		d.PrintErrf("%v", err)
		d.sayIncomplete(command, nil)
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return cli.ExitErrorf(cli.ExitFailed, "no live run has the given value; use --any-state to include runs in other states")
}

func groupPath(by, value string) string {
	return "/drift/groups/" + url.PathEscape(by) + "/" + url.PathEscape(value)
}

// showJSON prints the first answer as the server sent it, and then the answers on the following
// pages. An answer lists outputs and runs. Once all items of one list have been printed, showJSON
// removes that list from further answers, to print no item twice.
func (d *commands) showJSON(command *cobra.Command, path string, query url.Values, answer *wire.GroupAnswer, text []byte) error {
	if err := cli.PrintJSONLine(d.Out, text); err != nil {
		return err
	}
	outputs, runs := true, true // whether there are more outputs and more runs to print
	var outputsTrail, runsTrail client.CursorCycleDetector
	for {
		outputs = outputs && answer.OutputsNext != "" && (d.all || len(answer.Outputs) == 0)
		runs = runs && answer.Next != "" && (d.all || len(answer.Rows) == 0)
		if !outputs && !runs {
			return nil
		}
		query.Del("outputs_cursor")
		query.Del("cursor")
		if outputs {
			if err := followCursor(&outputsTrail, query, "outputs_cursor", answer.OutputsNext); err != nil {
				return err
			}
		}
		if runs {
			if err := followCursor(&runsTrail, query, "cursor", answer.Next); err != nil {
				return err
			}
		}
		next, text, err := fetch[wire.GroupAnswer](d, command, path, query)
		if err != nil {
			return err
		}
		answer = next
		if (!outputs || len(answer.Outputs) == 0) && (!runs || len(answer.Rows) == 0) {
			continue
		}
		if text, err = withoutLists(text, outputs, runs); err != nil {
			return err
		}
		if err := cli.PrintJSONLine(d.Out, text); err != nil {
			return err
		}
	}
}

// withoutLists removes the outputs from an answer unless outputs is set, and the runs unless runs
// is set.
func withoutLists(text []byte, outputs, runs bool) ([]byte, error) {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("parsing the server's response: %w", err)
	}
	if !outputs {
		answer["outputs"] = json.RawMessage("[]")
		delete(answer, "outputs_next")
	}
	if !runs {
		answer["rows"] = json.RawMessage("[]")
		delete(answer, "next")
	}
	return json.Marshal(answer)
}

// showOutputs prints the outputs of a group. It leaves the hint about further pages to showRuns:
// if some outputs are not printed, some runs are not printed either.
func (d *commands) showOutputs(command *cobra.Command, path string, query url.Values, answer *wire.GroupAnswer) error {
	t := cli.NewTable(d.Out, cli.TextColumn("output"), cli.NumberColumn("runs"), cli.NumberColumn("share"), cli.NumberColumn("first"), cli.TextColumn("text"))
	outputs := func(x *wire.GroupAnswer) ([]wire.GroupOutput, string) { return x.Outputs, x.OutputsNext }
	_, err := pages(d, command, path, query, "outputs_cursor", answer, nil, outputs, t, func(o wire.GroupOutput) []string {
		return []string{cli.QuoteCell(o.OutputHash), cli.FormatUint(o.Runs), cli.FormatPercent(float64(o.Share)), cli.FormatUint(o.Seq), strings.TrimPrefix(d.texts().Excerpt(command.Context(), "output_hash", o.OutputHash, o.Seq), " ")}
	})
	return err
}

func (d *commands) showRuns(command *cobra.Command, path string, query url.Values, answer *wire.GroupAnswer) error {
	if _, err := fmt.Fprintln(d.Out); err != nil {
		return err
	}
	t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("output"), cli.TextColumn("state"), cli.TextColumn("run"))
	runs := func(x *wire.GroupAnswer) ([]wire.GroupMember, string) { return x.Rows, x.Next }
	next, err := pages(d, command, path, query, "cursor", answer, nil, runs, t, func(m wire.GroupMember) []string {
		return []string{cli.FormatUint(m.Seq), cli.QuoteCell(string(m.Time)), d.hashOr(m.OutputHash), cli.QuoteCell(string(m.State)), cli.QuoteOptionalCell(m.RunID)}
	})
	if err == nil {
		d.conclude(command, t, next, "no runs", nil)
	}
	return err
}

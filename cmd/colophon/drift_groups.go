package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// groupingHelp names what runs are grouped by.
const groupingHelp = "ipc_id, input_hash, system_prompt_hash, output_hash, model or label:NAME"

// group is a group of runs as the server describes it.
type group struct {
	By, Value       string
	Runs            uint64
	DistinctOutputs uint64 `json:"distinct_outputs"`
	Stability       float64
	Entropy         float64 `json:"entropy_bits"`
	Flips           uint64
	FirstSeq        uint64 `json:"first_seq"`
	LastSeq         uint64 `json:"last_seq"`
	LastTime        string `json:"last_time"`
}

// groupsOptions are the flags of groups.
type groupsOptions struct {
	by, since, until, sort string
	minRuns, minOutputs    uint64
}

func (d *driftCommand) newGroups() *cobra.Command {
	var o groupsOptions
	command := &cobra.Command{
		Use:   "groups",
		Short: "Show runs in groups, and how far their outputs agree",
		Long: `Show the runs that have something in common as groups, the one that began last
first: how many runs and different outputs there are, the share of the commonest
output, the entropy of the outputs in bits, how often the output was not that of
the run before, and the first and last event. Runs of one ipc_id were made of the same:
where those have several outputs, the model does not always answer the same.`,
		Example: `  colophon drift groups --min-outputs 2
  colophon drift groups --by model --sort runs
  colophon drift groups --by label:step --since 2026-01-01T00:00:00Z`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return d.groups(command, &o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.by, "by", "ipc_id", "`what` the runs have in common: "+groupingHelp)
	flags.Uint64Var(&o.minRuns, "min-runs", 0, "leave out groups of fewer `runs`")
	flags.Uint64Var(&o.minOutputs, "min-outputs", 0, "leave out groups of fewer different `outputs`")
	flags.StringVar(&o.since, "since", "", "leave out groups whose last run was before this `time` (RFC 3339)")
	flags.StringVar(&o.until, "until", "", "leave out groups whose last run was at this `time` or later")
	flags.StringVar(&o.sort, "sort", "", "`order`: recent, runs, stability or flips, as the ledger is now")
	return command
}

func (d *driftCommand) groups(command *cobra.Command, o *groupsOptions) error {
	query := d.query()
	for name, value := range map[string]string{"by": o.by, "since": o.since, "until": o.until, "sort": o.sort} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range map[string]uint64{"min_runs": o.minRuns, "min_outputs": o.minOutputs} {
		if value > 0 {
			query.Set(name, decimal(value))
		}
	}
	t := newTable(d.out, column{name: o.by}, column{"runs", true}, column{"outputs", true}, column{"stability", true},
		column{"entropy", true}, column{"flips", true}, column{"first", true}, column{"last", true}, column{name: "last recorded"})
	return list(d, command, "/drift/groups", query, t, "no group of runs is like that", func(g group) []string {
		return []string{plain(g.Value), decimal(g.Runs), decimal(g.DistinctOutputs), share(g.Stability), fmt.Sprintf("%.3f", g.Entropy),
			decimal(g.Flips), decimal(g.FirstSeq), decimal(g.LastSeq), plain(g.LastTime)}
	})
}

// share is a part of a whole in percent.
func share(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + "%" }

// member is a run of a group.
type member struct {
	Seq        uint64
	Time       string
	RunID      *string `json:"run_id"`
	OutputHash *string `json:"output_hash"`
	State      string
}

// output is one of the outputs of a group.
type output struct {
	Seq        uint64
	OutputHash string `json:"output_hash"`
	Runs       uint64
	Share      float64
}

// groupAnswer is a group with its outputs and runs, of each a page.
type groupAnswer struct {
	page[member]
	AsOf        uint64 `json:"as_of"`
	Group       group
	Outputs     []output
	OutputsNext string `json:"outputs_next"`
}

func (d *driftCommand) newShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show BY VALUE",
		Short: "Show the outputs and the runs of one group",
		Long: `Show one group of runs: its outputs with how many runs had them, and its runs.
BY is ` + groupingHelp + `,
VALUE what the runs have in common, as groups shows it.`,
		Example: `  colophon drift show model claude-2
  colophon drift show label:step dialogue --all`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error { return d.show(command, args[0], args[1]) },
	}
}

func (d *driftCommand) show(command *cobra.Command, by, value string) error {
	path, query := "/drift/groups/"+url.PathEscape(by)+"/"+url.PathEscape(value), d.query()
	var first groupAnswer
	if err := d.get(command, path, query, &first); err != nil {
		return err
	}
	// All else is of the same size.
	query.Set("as_of", decimal(first.AsOf))
	if !d.json {
		g := first.Group
		if _, err := fmt.Fprintf(d.out, "%s %s: %d runs, %d different outputs, stability %s, %d flips, event %d to %d\n\n",
			plain(by), plain(value), g.Runs, g.DistinctOutputs, share(g.Stability), g.Flips, g.FirstSeq, g.LastSeq); err != nil {
			return err
		}
	}
	if err := d.showOutputs(command, path, query, first); err != nil {
		return err
	}
	return d.showRuns(command, path, query, first)
}

// showOutputs prints the outputs. Where it leaves some out, there are runs left out
// too, and those say so.
func (d *driftCommand) showOutputs(command *cobra.Command, path string, query url.Values, answer groupAnswer) error {
	defer query.Del("outputs_cursor")
	t := newTable(d.out, column{name: "output"}, column{"runs", true}, column{"share", true}, column{"first", true})
	for {
		p := page[output]{answer.Outputs, answer.OutputsNext}
		done, err := printPage(d, t, p, func(o output) []string {
			return []string{plain(o.OutputHash), decimal(o.Runs), share(o.Share), decimal(o.Seq)}
		})
		if done || err != nil {
			return err
		}
		query.Set("outputs_cursor", answer.OutputsNext)
		answer = groupAnswer{}
		if err := d.get(command, path, query, &answer); err != nil {
			return err
		}
	}
}

func (d *driftCommand) showRuns(command *cobra.Command, path string, query url.Values, answer groupAnswer) error {
	if !d.json {
		if _, err := fmt.Fprintln(d.out); err != nil {
			return err
		}
	}
	t := newTable(d.out, column{"event", true}, column{name: "recorded"}, column{name: "output"}, column{name: "state"}, column{name: "run"})
	for {
		done, err := printPage(d, t, answer.page, func(m member) []string {
			return []string{decimal(m.Seq), plain(m.Time), hashOr(m.OutputHash), plain(m.State), plainOr(m.RunID)}
		})
		if err != nil {
			return err
		}
		if done {
			d.conclude(t, answer.Next, "no runs")
			return nil
		}
		query.Set("cursor", answer.Next)
		answer = groupAnswer{}
		if err := d.get(command, path, query, &answer); err != nil {
			return err
		}
	}
}

package drift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
	"colophon/internal/gate"
)

// gateFlags holds the flags of the gate subcommand.
type gateFlags struct {
	*commands
	baseline, candidate, where []string
	match                      string
	unmatched                  bool
	maxRuns                    int
	level                      share
	chance                     share
	checks                     []string
	tolerance                  map[string]*share
	maxMismatches              int
	allowUndecided             bool
	junit, markdown            string
}

// share is a flag value for a fraction, written as 5% or 0.05.
type share float64

// Set implements pflag.Value.
func (s *share) Set(text string) error {
	digits, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(digits, 64)
	if percent {
		value /= 100
	}
	if err != nil || !(value >= 0 && value <= 1) {
		return errors.New("must be a number from 0 to 1 or a percentage, such as 0.05 or 5%")
	}
	*s = share(value)
	return nil
}

// String implements pflag.Value.
func (s *share) String() string {
	return strconv.FormatFloat(100*float64(*s), 'g', 6, 64) + "%"
}

// Type implements pflag.Value.
func (s *share) Type() string { return "share" }

func (d *commands) newGate() *cobra.Command {
	g := &gateFlags{commands: d, level: 0.05, tolerance: make(map[string]*share)}
	command := &cobra.Command{
		Use:   "gate --baseline NAME=VALUE --candidate NAME=VALUE",
		Short: "Fail if outputs changed by more than chance, for continuous integration",
		Long: `Compare two sets of runs, a baseline and a candidate, and fail if their outputs differ by
more than chance and by more than you tolerate. Each set is selected by conditions, such as
model=claude-2, label:build=main, or system_prompt_hash=213c22ed. If a flag is
given several times, with different names, a run must match all of its conditions.

Runs of the same input are compared with each other. The checks are:

  changed     more outputs differ between the sets than between runs of one set
  similarity  outputs of different sets are less similar, word by word, than those of one
  length      outputs are longer or shorter
  words       a word occurs in more outputs, or in fewer
  mismatches  more records claim a wrong hash

The outputs of one input vary by chance. changed and similarity therefore need inputs with
two runs or more in one set: run each input of the baseline twice. If you know how many
outputs differ by chance, give --chance; it is 0 if outputs are reproducible. The other
checks need no repeats. similarity, length, and words need the scope content.

Each check is a permutation test, which is exact for any number of inputs. --level is the
probability, for all checks together, that the gate fails although nothing changed. A check
fails if its change is larger than the tolerance (default 0) and more than chance. If a
check passes, that does not prove that nothing changed; its interval shows how large a
change it can have missed. docs/ci.md explains the tests, and how many inputs are enough.

Exit codes: 0 no change was found, 1 the outputs changed or the gate failed, 2 bad
arguments, 3 the server cannot be reached, 7 not enough evidence: too few inputs have runs
in both sets, or a check that you asked for cannot be made (0 with --allow-undecided).`,
		Example: `  colophon drift gate --baseline label:build=main --candidate label:build=pr-7
  colophon drift gate --baseline model=claude-2 --candidate model=claude-2.1 --max-length 10%
  colophon drift gate --baseline label:build=main --candidate label:build=$SHA --where label:suite=smoke \
    --junit gate.xml --markdown gate.md
  colophon drift gate --baseline label:build=main --candidate label:build=$SHA --checks changed --chance 0`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return g.run(command) },
	}
	g.bind(command)
	return command
}

func (g *gateFlags) bind(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&g.baseline, "baseline", nil, "`NAME=VALUE` that the baseline's runs have: a filter of GET /records; may be repeated")
	flags.StringArrayVar(&g.candidate, "candidate", nil, "`NAME=VALUE` that the candidate's runs have; may be repeated")
	flags.StringArrayVar(&g.where, "where", nil, "`NAME=VALUE` that all runs have; may be repeated")
	bindPeriod(flags)
	flags.StringVar(&g.match, "match", "input", "`field` that runs of the same input have in common: input, input_hash, run_id, label:NAME, or the JSON pointer of a payload member")
	flags.BoolVar(&g.unmatched, "unmatched", false, "compare the sets as wholes; both must have random inputs of one kind")
	flags.IntVar(&g.maxRuns, "max-runs", 20000, "maximum `number` of runs of a set")
	flags.Var(&g.level, "level", "probability of a false alarm (`share`)")
	flags.Var(&g.chance, "chance", "`share` of outputs that differ between two runs of one input by chance, if no input has repeats")
	flags.StringSliceVar(&g.checks, "checks", nil, "`checks` to run, separated by commas; default all that the data allows")
	for name, what := range map[string]string{
		gate.CheckNameChanged:    "tolerated increase in the share of outputs that differ",
		gate.CheckNameSimilarity: "tolerated decrease in the similarity of outputs",
		gate.CheckNameLength:     "tolerated change in the length of outputs",
		gate.CheckNameWords:      "tolerated change in the share of outputs that contain a given word",
	} {
		g.tolerance[name] = new(share)
		flags.Var(g.tolerance[name], "max-"+name, what+" (`share`)")
	}
	flags.IntVar(&g.maxMismatches, "max-mismatches", 0, "maximum `number` of the candidate's records with wrong claims; without it, the two sets are compared")
	flags.BoolVar(&g.allowUndecided, "allow-undecided", false, "exit with 0 if there is not enough evidence")
	flags.StringVar(&g.junit, "junit", "", "write the report to this `file` as JUnit XML")
	flags.StringVar(&g.markdown, "markdown", "", "write the report to this `file` as Markdown; - is the standard output, in place of the table")
	g.stateFlag(flags)
	completion.RegisterFlag(command, "checks", completion.FromList(gate.CheckNames))
	completion.RegisterFlag(command, "match", completion.FromList([]string{"input", "input_hash", "run_id", "label:"}))
	conditions := completion.FromList([]string{"model=", "system_prompt_hash=", "label:"})
	for _, name := range []string{"baseline", "candidate", "where"} {
		completion.RegisterFlag(command, name, conditions)
	}
}

// options returns the gate options that the flags specify. It returns an error if the flags
// contradict each other.
func (g *gateFlags) options(flags *pflag.FlagSet) (gate.Options, error) {
	o := gate.Options{SignificanceLevel: float64(g.level), Checks: g.checks, RequiredChecks: slices.Clone(g.checks), Tolerances: make(map[string]float64)}
	for _, name := range g.checks {
		if !slices.Contains(gate.CheckNames, name) {
			return o, fmt.Errorf("--checks: %q is not a check; use %s", name, strings.Join(gate.CheckNames, ", "))
		}
	}
	asked := func(name, flag string) (bool, error) {
		if !flags.Changed(flag) {
			return false, nil
		}
		if o.Checks != nil && !slices.Contains(o.Checks, name) {
			return false, fmt.Errorf("--%s applies to the check %s, which --checks omits", flag, name)
		}
		o.RequiredChecks = append(o.RequiredChecks, name)
		return true, nil
	}
	for name, tolerance := range g.tolerance {
		if _, err := asked(name, "max-"+name); err != nil {
			return o, err
		}
		o.Tolerances[name] = float64(*tolerance)
	}
	given, err := asked(gate.CheckNameMismatches, "max-mismatches")
	if err != nil {
		return o, err
	}
	if given {
		if g.maxMismatches < 0 {
			return o, errors.New("--max-mismatches: must not be negative")
		}
		o.MaxMismatches = &g.maxMismatches
	}
	if given, err = asked(gate.CheckNameChanged, "chance"); err != nil {
		return o, err
	}
	if given {
		if g.chance >= 1 {
			return o, errors.New("--chance: must be less than 1: if all outputs differ by chance, no change can be found")
		}
		o.ChanceDifferenceRate = (*float64)(&g.chance)
	}
	if g.level <= 0 || g.level > 0.5 {
		return o, errors.New("--level: must be greater than 0 and at most 0.5 (50%)")
	}
	return o, nil
}

// selection returns the runs to compare, as selected by the flags. It returns an error if the flags
// do not define a valid selection.
func (g *gateFlags) selection(command *cobra.Command) (gate.Selection, error) {
	s := gate.Selection{MatchKey: g.match, MaxRuns: g.maxRuns}
	flags := command.Flags()
	if g.unmatched {
		if flags.Changed("match") {
			return s, errors.New("--match and --unmatched are mutually exclusive")
		}
		s.MatchKey = ""
	} else if known := []string{"input", "input_hash", "run_id"}; !slices.Contains(known, g.match) && !strings.HasPrefix(g.match, "label:") && !strings.HasPrefix(g.match, "/") {
		return s, fmt.Errorf("--match: %q is not a field; use %s, label:NAME, or a JSON pointer", g.match, strings.Join(known, ", "))
	}
	if len(g.baseline) == 0 || len(g.candidate) == 0 {
		return s, errors.New("--baseline and --candidate are required: specify which runs to compare, such as label:build=main")
	}
	for _, set := range []struct {
		to         *client.RecordFilter
		flag       string
		conditions []string
	}{{&s.Baseline, "baseline", g.baseline}, {&s.Candidate, "candidate", g.candidate}} {
		set.to.Where = make(map[string]string)
		if !g.anyState {
			set.to.State = wire.StateLive
		}
		for _, flag := range []struct {
			name       string
			conditions []string
		}{{set.flag, set.conditions}, {"where", g.where}} {
			for _, condition := range flag.conditions {
				name, value, found := strings.Cut(condition, "=")
				if !found || name == "" {
					return s, fmt.Errorf("--%s: %q does not have the form NAME=VALUE", flag.name, condition)
				}
				if _, twice := set.to.Where[name]; twice {
					return s, fmt.Errorf("--%s: the filter %s is set more than once for the %s", flag.name, name, set.flag)
				}
				set.to.Where[name] = value
			}
		}
		var err error
		if set.to.Since, err = momentOf(flags, "since"); err != nil {
			return s, err
		}
		if set.to.Until, err = momentOf(flags, "until"); err != nil {
			return s, err
		}
		if set.to.AsOf, err = flags.GetUint64("as-of"); err != nil {
			return s, err
		}
	}
	return s, nil
}

// momentOf returns the time given by a flag, or the zero time if the flag is not set.
func momentOf(flags *pflag.FlagSet, name string) (time.Time, error) {
	if !flags.Changed(name) {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, flags.Lookup(name).Value.String())
}

func (g *gateFlags) run(command *cobra.Command) error {
	options, err := g.options(command.Flags())
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	selection, err := g.selection(command)
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	if err := g.connect(); err != nil {
		return err
	}
	data, asOf, err := gate.FetchRuns(command.Context(), g.server.Ledger(g.ledger), selection)
	switch {
	case errors.Is(err, gate.ErrIncomparable):
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	case err != nil:
		return g.server.ExplainFatal(err)
	}
	report := gate.RunChecks(data, options)
	report.AsOf, report.MatchKey = asOf, selection.MatchKey
	report.BaselineConditions, report.CandidateConditions = append(slices.Clone(g.baseline), g.where...), append(slices.Clone(g.candidate), g.where...)
	if err := g.write(report); err != nil {
		return err
	}
	switch report.Verdict {
	case gate.VerdictFail:
		return &cli.ExitError{Code: cli.ExitFailed}
	case gate.VerdictUndecided:
		g.explainNoCommonInput(report)
		if !g.allowUndecided {
			return &cli.ExitError{Code: cli.ExitUndecided}
		}
	case gate.VerdictPass:
	}
	return nil
}

// explainNoCommonInput explains why the two sets have no input in common. It prints nothing if they do have a
// common input or if --unmatched is set.
func (g *gateFlags) explainNoCommonInput(r *gate.Report) {
	switch {
	case g.unmatched || r.Inputs > 0:
	case r.BaselineOnlyInputs == 0:
		g.PrintErrf("no run with an input and an output matches %s", strings.Join(r.BaselineConditions, " and "))
	case r.CandidateOnlyInputs == 0:
		g.PrintErrf("no run with an input and an output matches %s", strings.Join(r.CandidateConditions, " and "))
	default:
		g.PrintErrf("the two sets have no value of %s in common; choose another field with --match, or use --unmatched if both sets have random inputs of the same kind", r.MatchKey)
	}
}

// write prints the report and writes it to the files named by --junit and --markdown.
func (g *gateFlags) write(r *gate.Report) error {
	for _, file := range []struct {
		flag, name string
		write      func(io.Writer) error
	}{
		{"junit", g.junit, func(w io.Writer) error { return r.WriteJUnit(w, g.allowUndecided) }},
		{"markdown", g.markdown, r.WriteMarkdown},
	} {
		if file.name == "" || file.name == "-" && file.flag == "markdown" {
			continue
		}
		var text bytes.Buffer
		if err := file.write(&text); err != nil {
			return err
		}
		err := os.WriteFile(file.name, text.Bytes(), 0o644) // #nosec G306 -- a report that other steps of a build read
		if err != nil {
			return cli.ExitErrorf(cli.ExitUsage, "--%s: %w", file.flag, err)
		}
	}
	switch {
	case g.json:
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return cli.PrintJSONLine(g.Out, text)
	case g.markdown == "-":
		return r.WriteMarkdown(g.Out)
	}
	return g.print(r)
}

// print prints the report as a table.
func (g *gateFlags) print(r *gate.Report) error {
	if _, err := fmt.Fprintf(g.Out, "%s\n\n", r.Summary); err != nil {
		return err
	}
	t := cli.NewTable(g.Out, cli.TextColumn("check"), cli.TextColumn("outcome"), cli.NumberColumn("change"), cli.NumberColumn("tolerated"), cli.NumberColumn("p-value"))
	rows := make([][]string, len(r.Checks))
	for i := range r.Checks {
		c := &r.Checks[i]
		rows[i] = []string{c.Name, strings.ReplaceAll(string(c.Outcome), "_", " "), c.ChangeCell(), cli.FormatPercent(c.Tolerance), c.PValueCell()}
	}
	if err := t.WriteRows(rows); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteByte('\n')
	for i := range r.Checks {
		c := &r.Checks[i]
		fmt.Fprintf(&text, "%s: %s\n", c.Name, c.Summary)
		if len(c.Words) == 1 { // the summary already mentions the only word
			continue
		}
		for _, w := range c.Words {
			fmt.Fprintf(&text, "  %s: in %s of the baseline's outputs, and in %s of the candidate's\n", cli.QuoteCell(w.Word), cli.FormatPercent(w.Baseline), cli.FormatPercent(w.Candidate))
		}
	}
	fmt.Fprintf(&text, "\n%s\n", r.DescribeRuns())
	if differ := r.DescribeDifferences(); differ != "" {
		fmt.Fprintf(&text, "%s\n", differ)
	}
	fmt.Fprintf(&text, "%s\n", r.DescribeMethod())
	_, err := io.WriteString(g.Out, text.String())
	return err
}

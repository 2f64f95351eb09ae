package drift

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
	"colophon/internal/show"
)

func (d *commands) newEffects() *cobra.Command {
	command := &cobra.Command{
		Use:   "effects VARIABLE A B",
		Short: "Show the effect of changing one variable and nothing else",
		Long: `Show pairs of runs that differ in one variable and agree in everything else that ipc_id
covers. In each pair, the variable is A in one run and B in the other. effects prints how
many outputs changed, then the pairs.

VARIABLE is input, input_hash, system_prompt_hash, model, temperature, max_tokens, seed,
ollama_build_hash, label:NAME, or the JSON pointer of a member of the payload, such as
/policy_hash. Runs that differ in a build or a label agree in everything that ipc_id
covers. For a member of the payload, A and B are its values as JSON or as text, or the
digests that compare shows. Values need the scope content.

For each pair, and for all of them together, the tables show how similar the outputs are,
word by word, and how their length changes. This needs the scope content.

A hash can be shortened to its first 8 digits or more. For input_hash and
system_prompt_hash, A and B can also be a label whose runs all have one hash:
label:NAME=VALUE stands for that hash, and so for all runs with the hash. prompt is short
for system_prompt_hash.

If several runs with A or with B have the same ipc_id, effects pairs the first with the
first, the second with the second, and so on. It says how many runs have no partner, and
why.`,
		Example: `  colophon drift effects model claude-2 claude-2.1
  colophon drift effects model claude-2 claude-2.1 --most-changed --limit 20
  colophon drift effects system_prompt_hash label:config=plain label:config=concise
  colophon drift effects label:region eu us
  colophon drift effects /policy_hash 8f2c 91aa
  colophon drift effects temperature 0 0.7 --all --json`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil // RunE reports the error, because it has to ask the server for possible values
			}
			return cobra.ExactArgs(3)(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) < 3 {
				return missingValue(d, command, field(args[0]))
			}
			return d.effects(command, args[0], args[1], args[2])
		},
	}
	command.ValidArgsFunction = d.completeNames(completion.EffectVariables, 3)
	d.pageFlags(command.Flags())
	d.stateFlag(command.Flags())
	d.fullFlag(command.Flags())
	command.Flags().BoolVar(&d.mostChangedFirst, "most-changed", false, "print only the pairs whose outputs changed most, beginning with the most changed")
	return command
}

func (d *commands) effects(command *cobra.Command, variable, a, b string) error {
	variable = field(variable)
	query := d.query(command)
	query.Set("variable", variable)
	for i, value := range []*string{&a, &b} {
		hashOf := resolveLabel
		if strings.HasPrefix(variable, "/") {
			hashOf = memberDigest
		}
		hash, err := hashOf(d, command, variable, *value)
		if err != nil {
			return err
		}
		query.Set([]string{"a", "b"}[i], hash)
		if !strings.HasPrefix(variable, "/") { // for a payload member, the table shows the value as the user typed it
			*value = hash
		}
	}
	query.Set("text", "true")
	query.Set("names", "true")
	t := cli.NewTable(d.Out, cli.NumberColumn("event A"), cli.NumberColumn("event B"), cli.TextColumn("output A"), cli.TextColumn("output B"),
		cli.NumberColumn("similar"), cli.NumberColumn("words"), cli.TextColumn("changed"))
	answer, text, err := fetch[wire.EffectsAnswer](d, command, "/drift/effects", query)
	if err != nil {
		return err
	}
	var sides *comparedSides
	if !d.json {
		sides = readSides(d, command, query, answer.AsOf, answer.Pairs)
		if err := d.printEffect(command, variable, a, b, answer, sides); err != nil {
			return err
		}
		if d.mostChangedFirst && answer.Text != nil && answer.Pairs > 0 {
			err := show.PrintMostChangedPairs(d.Console, answer.Text)
			if changed := answer.Text.MostChanged; err == nil && len(changed) > 0 {
				d.sayCompare(changed[0].A, changed[0].B)
			}
			return err
		}
	}
	asked := maps.Clone(query)
	query.Del("as_of") // the cursor contains the tree size
	pairs := func(x *wire.EffectsAnswer) ([]wire.EffectPair, string) { return x.Rows, x.Next }
	next, err := pages(d, command, "/drift/effects", query, "cursor", answer, text, pairs, t, func(p wire.EffectPair) []string {
		similar, words := show.TextChangeCells(p.Text)
		return []string{cli.FormatUint(p.A.Seq), cli.FormatUint(p.B.Seq), d.hashOr(p.A.OutputHash), d.hashOr(p.B.OutputHash), similar, words, yesNo(p.OutputChanged)}
	})
	if err == nil && answer.Pairs == 0 && next == "" && !d.json {
		return d.explainNoPairs(command, asked, a, b, answer, sides)
	}
	if err == nil {
		d.conclude(command, t, next, "", nil)
		if len(answer.Rows) > 0 && !d.json {
			d.sayCompare(answer.Rows[0].A.Seq, answer.Rows[0].B.Seq)
		}
	}
	return err
}

// missingValue returns the error for a command line that lacks A or B. If the server can be reached, the
// error lists values of the variable.
func missingValue(d *commands, command *cobra.Command, variable string) error {
	values, err := valuesOf(d, command, variable)
	if err != nil {
		values = ""
	}
	return cli.ExitErrorf(cli.ExitUsage, "two values of %s are required: A and B%s", cli.QuoteCell(variable), values)
}

// sayCompare prints a hint that names the command for showing how the texts of a pair differ.
func (d *commands) sayCompare(a, b uint64) {
	d.PrintErrf("colophon drift compare %d %d --text shows how the texts of a pair differ", a, b)
}

// explainNoPairs explains why no pair was found. Either no run has one of the values, only runs that are
// not live form pairs, or the runs also differ in other variables. asked holds the query parameters.
func (d *commands) explainNoPairs(command *cobra.Command, asked url.Values, a, b string, answer *wire.EffectsAnswer, sides *comparedSides) error {
	variable := asked.Get("variable")
	reasons := sides.unpairedLines(0)
	for side, value := range []string{a, b} {
		known, err := hasRuns(d, command, variable, value, side, sides)
		if err != nil {
			return err
		}
		if !known {
			values, err := valuesOf(d, command, variable)
			if err != nil {
				return err
			}
			d.PrintErrf("no run has the %s %s%s", cli.QuoteCell(variable), cli.QuoteCell(value), values)
			if sides != nil && sides.incomplete[side] > 0 {
				d.PrintErrf("number of IPC records that have this value but are not runs, because they lack an input or an output: %d", sides.incomplete[side])
			}
			return nil
		}
	}
	runs, others := "live runs", ""
	if d.anyState {
		runs = "runs of any state"
	} else {
		query := maps.Clone(asked)
		query.Del("text")
		query.Set("state", "any")
		query.Set("limit", "1")
		answer, _, err := fetch[wire.EffectsAnswer](d, command, "/drift/effects", query)
		if err != nil {
			return err
		}
		if answer.Pairs > 0 {
			others = "; --any-state also compares runs in other states, and finds " + cli.FormatCount(answer.Pairs, "pair")
		}
	}
	d.PrintErrf("no pair of %s differs only in %s (%s versus %s)%s", runs, cli.QuoteCell(variable), cli.QuoteCell(a), cli.QuoteCell(b), others)
	if len(reasons) > 0 {
		d.PrintErrf("%s with A (%s), %d with B (%s)", cli.FormatCount(sides.runs[0], "run"), cli.QuoteCell(a), sides.runs[1], cli.QuoteCell(b))
	}
	for _, line := range reasons {
		d.PrintErrf("%s", line)
	}
	if sides == nil && len(answer.Incomplete) > 0 {
		d.sayIncomplete(command, answer.Incomplete)
	}
	return nil
}

// hasRuns reports whether any run, in any state, has the given value in the field by. It returns true
// if it cannot find out quickly.
func hasRuns(d *commands, command *cobra.Command, by, value string, side int, sides *comparedSides) (bool, error) {
	switch {
	case value == "": // the path /drift/groups/{by}/{value} cannot contain an empty value
		return true, nil
	case by == "model" || by == "ollama_build_hash" || strings.HasPrefix(by, "label:"):
		query := d.asOf(command)
		query.Set("state", "any")
		_, _, err := fetch[wire.GroupAnswer](d, command, groupPath(by, value), query)
		if errors.Is(err, client.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	case sides == nil || sides.runs[side] > 0 || d.anyState:
		return sides == nil || sides.runs[side] > 0, nil
	case by == "temperature" || by == "max_tokens":
		query, known := d.asOf(command), false
		query.Set("of", by)
		err := forEachRow(d, command, "/drift/values", query, func(v wire.RunValue) bool {
			known = canonicalNumber(v.Value) == canonicalNumber(value)
			return !known
		})
		return known, err
	}
	return true, nil
}

// printEffect prints a sentence with the totals over all pairs, and then the reasons why runs have
// no partner. It prints nothing if there are no pairs.
func (d *commands) printEffect(command *cobra.Command, variable, a, b string, answer *wire.EffectsAnswer, sides *comparedSides) error {
	if answer.Pairs == 0 {
		return nil
	}
	shown := [2]string{cli.QuoteCell(a), cli.QuoteCell(b)}
	if len(answer.Rows) > 0 {
		row := &answer.Rows[0]
		shown[0] += d.texts().Excerpt(command.Context(), variable, a, row.A.Seq)
		shown[1] += d.texts().Excerpt(command.Context(), variable, b, row.B.Seq)
	}
	_, err := fmt.Fprintf(d.Out, "From %s %s (A) to %s (B), all else equal: %s of runs, the output changed in %d (%s) and stayed the same in %d.\n\n",
		cli.QuoteCell(variable), shown[0], shown[1], cli.FormatCount(answer.Pairs, "pair"), answer.Changed,
		cli.FormatPercent(float64(answer.Changed)/float64(answer.Pairs)), answer.Unchanged)
	if err != nil {
		return err
	}
	if err := show.PrintEffectTextSummary(d.Console, answer.Text); err != nil {
		return err
	}
	lines := sides.unpairedLines(answer.Pairs)
	if len(lines) == 0 {
		return nil
	}
	_, err = fmt.Fprintf(d.Out, "Of %s with A and %d with B, %s are in no pair:\n  %s\n\n", cli.FormatCount(sides.runs[0], "run"), sides.runs[1],
		onSides([2]uint64{sides.runs[0] - answer.Pairs, sides.runs[1] - answer.Pairs}), strings.Join(lines, "\n  "))
	return err
}

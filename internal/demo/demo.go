// Package demo loads the example records into a ledger and prints the answers to five questions
// about them.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/example"
)

// Tour loads the example into Ledger and prints its output to Console.
type Tour struct {
	*cli.Console
	Ledger *client.Ledger
	last   uint64 // seq of the example's last event; each query waits until it is indexed
}

// ErrOtherRecords means that nothing was posted because the ledger already has records that are not
// part of the example.
var ErrOtherRecords = errors.New("the ledger contains records that are not part of the example")

// Load posts the example records unless the ledger has other records. Calling Load again adds
// nothing.
func (t *Tour) Load(ctx context.Context) error {
	stats, err := t.Ledger.Stats(ctx)
	if err != nil {
		return err
	}
	records := uint64(0)
	for _, n := range stats.Records {
		records += n
	}
	if records > 0 {
		page, err := t.Ledger.Records.List(&client.RecordFilter{QueryOptions: client.QueryOptions{Limit: 1}}).ReadPage(ctx, "")
		if err != nil {
			return err
		}
		if len(page.Rows) == 0 || page.Rows[0].Labels[example.LabelName] != example.LabelValue {
			return ErrOtherRecords
		}
	}
	added, known := 0, 0
	for result, err := range t.Ledger.Records.PostBatch(ctx, lines, nil) {
		switch {
		case err != nil:
			return err
		case result.Err != nil:
			return fmt.Errorf("line %d of the example: %w", result.Index+1, result.Err)
		case result.Receipt.Replayed:
			known++
		default:
			added++
		}
		t.last = max(t.last, result.Receipt.Seq)
	}
	_, err = fmt.Fprintf(t.Out, "Loaded the example into the ledger %s: %s added, %d already present.\n"+
		"A lighthouse keeper answers letters, with two models and two prompts.\n", t.Ledger.Name(), cli.FormatCount(uint64(added), "record"), known)
	return err
}

func lines(yield func(client.BatchLine) bool) {
	for line := range bytes.Lines(example.BatchBody) {
		if !yield(client.BatchLine{RawJSON: bytes.TrimSuffix(line, []byte("\n"))}) {
			return
		}
	}
}

// PrintAnswers prints each question, its answer, and the command that answers it.
func (t *Tour) PrintAnswers(ctx context.Context) error {
	for i, q := range []struct {
		text, command string
		answer        func(context.Context) (string, error)
	}{
		{"What did going from wren-1 to wren-2 change?", "drift effects model wren-1 wren-2 --most-changed", t.model},
		{"What does the verbose prompt do?", "drift effects system_prompt_hash label:config=plain label:config=verbose", t.prompt},
		{"Which inputs are unstable, and why?", "drift groups --by input --min-outputs 2 --sort flips", t.unstable},
		{"Which answers rest on a changed chunk?", "drift stale handbook", t.stale},
		{"What happened to the story between two builds?", "drift paths the-late-boat --build summer", t.story},
	} {
		answer, err := q.answer(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(t.Out, "\n%d. %s\n%s\n   colophon %s --ledger %s\n", i+1, q.text, indented(answer), q.command, t.Ledger.Name()); err != nil {
			return err
		}
	}
	return nil
}

// indented breaks text into lines of at most 96 bytes, each indented by three spaces.
func indented(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0 || column+1+len(word) > 96:
			if column > 0 {
				b.WriteByte('\n')
			}
			b.WriteString("   ")
			column = 3
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

func (t *Tour) options() client.QueryOptions {
	return client.QueryOptions{AfterSeq: t.last, IncludeTextFigures: true, IncludeNames: true}
}

func (t *Tour) effects(ctx context.Context, variable, a, b string) (*wire.EffectsAnswer, error) {
	o := &client.RunQueryOptions{StateOptions: client.StateOptions{QueryOptions: t.options()}}
	return t.Ledger.Drift.Effects(variable, a, b, o).Get(ctx)
}

func (t *Tour) model(ctx context.Context) (string, error) {
	e, err := t.effects(ctx, "model", "wren-1", "wren-2")
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s of runs differ only in the model. The output changed in %d and stayed the same in %d.", cli.FormatCount(e.Pairs, "pair"), e.Changed, e.Unchanged)
	if e.Text != nil && len(e.Text.MostChanged) > 0 {
		most := e.Text.MostChanged[0]
		text += fmt.Sprintf(" It changed most from event %d to event %d, which are %s similar%s.", most.A, most.B, cli.FormatPercent(float64(most.Similarity)), quoted(most.Name))
	}
	return text, nil
}

// quoted returns a colon followed by the quoted words of a name, or "" if name is nil.
func quoted(name *wire.ReadableName) string {
	if name == nil {
		return ""
	}
	return `: "` + cli.QuoteCell(name.Words) + `"`
}

func (t *Tour) prompt(ctx context.Context) (string, error) {
	prompts := make(map[string]string)
	o := client.StateOptions{QueryOptions: t.options()}
	o.IncludeTextFigures = false
	for group, err := range t.Ledger.Drift.ListGroups("system_prompt_hash", &client.RunGroupFilter{StateOptions: o}).All(ctx) {
		if err != nil {
			return "", err
		}
		if group.Name != nil {
			prompts[group.Name.Label] = group.Value
		}
	}
	e, err := t.effects(ctx, "system_prompt_hash", prompts["plain"], prompts["verbose"])
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("The verbose prompt changes %d of %s.", e.Changed, cli.FormatCount(e.Pairs, "output"))
	if s := e.Text; s != nil && s.WordsA != nil && s.WordsB != nil {
		text += fmt.Sprintf(" The median answer grows from %.0f to %.0f words.", s.WordsA.Median, s.WordsB.Median)
	}
	return text, nil
}

func (t *Tour) unstable(ctx context.Context) (string, error) {
	o := t.options()
	o.IncludeTextFigures, o.Limit = false, 3
	page, err := t.Ledger.Drift.ListGroups("input", &client.RunGroupFilter{StateOptions: client.StateOptions{QueryOptions: o}, MinOutputs: 2, Sort: "flips"}).ReadPage(ctx, "")
	if err != nil {
		return "", err
	}
	var parts []string
	for _, group := range page.Rows {
		var causes []string
		for row, err := range t.Ledger.Drift.Timeline("input", group.Value, nil).All(ctx) {
			if err != nil {
				return "", err
			}
			if row.Cause == nil || row.OutputChanged == nil || !*row.OutputChanged || slices.Contains(causes, string(*row.Cause)) {
				continue
			}
			causes = append(causes, string(*row.Cause))
		}
		words := "an input"
		if group.Name != nil {
			words = `"` + cli.QuoteCell(group.Name.Words) + `"`
		}
		parts = append(parts, fmt.Sprintf("%s has %d outputs in %s; the causes are %s.", words, group.DistinctOutputs, cli.FormatCount(group.Runs, "run"), strings.Join(causes, ", ")))
	}
	return strings.Join(parts, " "), nil
}

func (t *Tour) stale(ctx context.Context) (string, error) {
	var runs []string
	for row, err := range t.Ledger.Citations.StaleSets("handbook", nil).All(ctx) {
		if err != nil {
			return "", err
		}
		if row.RunID != nil && !slices.Contains(runs, *row.RunID) {
			runs = append(runs, cli.QuoteCell(*row.RunID))
		}
	}
	return fmt.Sprintf("%s: %s. The handbook now contains a different passage in place of the cited one.", cli.FormatCount(uint64(len(runs)), "answer"), strings.Join(runs, ", ")), nil
}

func (t *Tour) story(ctx context.Context) (string, error) {
	paths := make(map[string][]string)
	for row, err := range t.Ledger.Paths.CompareBuilds("the-late-boat", "spring", "summer", "", nil).All(ctx) {
		if err != nil {
			return "", err
		}
		paths[string(row.Status)] = append(paths[string(row.Status)], `"`+cli.QuoteCell(row.Route[len(row.Route)-1])+`"`)
	}
	return fmt.Sprintf("From spring to summer, %d paths stayed the same. New: %s. Modified: %s. Gone: %s.", len(paths["unchanged"]),
		strings.Join(paths["new"], ", "), strings.Join(paths["modified"], ", "), strings.Join(paths["gone"], ", ")), nil
}

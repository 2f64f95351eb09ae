package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/show"
)

// comparedTexts are the texts of a kind of record that compare --text compares.
var comparedTexts = map[wire.Kind][]string{
	wire.KindIPCRecord:       {"output", "prompt", "payload"},
	wire.KindRunDAG:          {"question", "answer_text"},
	wire.KindPathFingerprint: {"passage"},
}

// compareTexts prints how the texts of two records of one kind differ, word by word.
func (d *driftCommand) compareTexts(command *cobra.Command, a, b string, kind wire.Kind) error {
	for _, of := range comparedTexts[kind] {
		answer, text, err := fetchDrift[wire.TextDiff](d, command, "/diff", url.Values{"a": {a}, "b": {b}, "of": {of}})
		switch {
		case errors.Is(err, client.ErrNotFound):
			continue // one of the records was posted without it
		case errors.Is(err, client.ErrGone):
			d.Say("%s: %v", of, err)
			continue
		case err != nil:
			return err
		case d.json:
			err = cli.PrintJSONLine(d.Out, text)
		default:
			err = printDiff(d, of, answer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printDiff prints the figures of a text, and the diff if there is a difference.
func printDiff(d *driftCommand, of string, answer *wire.TextDiff) error {
	if answer.A.SHA256 == answer.B.SHA256 {
		_, err := fmt.Fprintf(d.Out, "\nThe %s is the same: %s.\n", of, cli.Counted(answer.A.Words, "word"))
		return err
	}
	length := ""
	if answer.LengthChange != nil {
		length = " (" + show.SignedShare(float64(*answer.LengthChange)) + ")"
	}
	change := wire.TextChange{Similarity: &answer.Similarity, Bounded: answer.Bounded}
	if _, err := fmt.Fprintf(d.Out, "\nThe %s is %s similar; its length changes from %d to %s%s.\n", of,
		show.Similarity(&change), answer.A.Words, cli.Counted(answer.B.Words, "word"), length); err != nil {
		return err
	}
	return show.Diff(d.Console, answer.Edits)
}

// printEffectTexts prints how far the outputs of all pairs changed.
func printEffectTexts(d *driftCommand, t *wire.EffectTexts) error {
	if t == nil || t.Similarity == nil || t.LengthChange == nil {
		return nil
	}
	of := cli.Counted(t.Pairs, "pair")
	if t.Sample {
		of = "a sample of " + of
	}
	s, l := t.Similarity, t.LengthChange
	_, err := fmt.Fprintf(d.Out, "In the median of %s, the outputs are %s similar (quartiles %s and %s), and the length changes by %s (%s and %s).\n\n", of,
		cli.Share(float64(s.Median)), cli.Share(float64(s.Q1)), cli.Share(float64(s.Q3)),
		show.SignedShare(float64(l.Median)), show.SignedShare(float64(l.Q1)), show.SignedShare(float64(l.Q3)))
	return err
}

// printMostChanged prints the pairs whose outputs changed most.
func printMostChanged(d *driftCommand, t *wire.EffectTexts) error {
	rows := make([][]string, len(t.MostChanged))
	for i, p := range t.MostChanged {
		change := cli.None
		if p.LengthChange != nil {
			change = show.SignedShare(float64(*p.LengthChange))
		}
		rows[i] = []string{cli.Decimal(p.A), cli.Decimal(p.B), cli.Share(float64(p.Similarity)), change}
	}
	return cli.NewTable(d.Out, cli.NumberColumn("event A"), cli.NumberColumn("event B"), cli.NumberColumn("similar"), cli.NumberColumn("length")).Write(rows)
}

// labelled returns the hash that all runs with a label have, if value is label:NAME=VALUE and the
// variable is a hash. It returns any other value unchanged.
func labelled(d *driftCommand, command *cobra.Command, variable, value string) (string, error) {
	label, text, found := strings.Cut(value, "=")
	if !found || !strings.HasPrefix(label, "label:") || !strings.HasSuffix(variable, "_hash") {
		return value, nil
	}
	query := d.query(command)
	query.Set("kind", string(wire.KindIPCRecord))
	query.Set("limit", "1000")
	query.Set(label, text)
	page, _, err := fetchDrift[wire.Page[wire.ListedRecord]](d, command, "/records", query)
	if err != nil {
		return "", err
	}
	var hashes []string
	for _, r := range page.Rows {
		if hash := r.Hashes.Get(variable); hash != "" && !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	switch len(hashes) {
	case 0:
		return "", cli.Exitf(cli.ExitFailed, "no IPC record with %s has a value of %s", cli.Plain(value), cli.Plain(variable))
	case 1:
		return hashes[0], nil
	}
	return "", cli.Exitf(cli.ExitFailed, "records with %s have %d different values of %s: %s", cli.Plain(value), len(hashes), cli.Plain(variable), strings.Join(hashes[:min(len(hashes), 8)], ", "))
}

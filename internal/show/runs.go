package show

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// PrintRunsComparison prints how the second of two runs differs from the first. It calls row to fetch
// the record with a given sequence number.
func PrintRunsComparison(ctx context.Context, c *cli.Console, t *TextReader, x *wire.RunsComparison, row func(seq uint64) (*wire.RecordAnswer, error), full bool) error {
	if err := printComparedRecords(c, x); err != nil {
		return err
	}
	if ipc := x.IPCChange; ipc != nil {
		if err := printPair(c, row, ipc.A.Seq, ipc.B.Seq, func(a, b *wire.RecordAnswer) error { return PrintIPCChange(ctx, c, t, ipc, a, b, full) }); err != nil {
			return err
		}
	}
	if dags := x.RunDAGChange; dags != nil {
		if err := printPair(c, row, dags.A.Seq, dags.B.Seq, func(a, b *wire.RecordAnswer) error { return PrintRunDAGChange(c, dags, a, b) }); err != nil {
			return err
		}
	}
	if sets := x.CitationSetChange; sets != nil {
		if err := printPair(c, row, sets.A.Seq, sets.B.Seq, func(a, b *wire.RecordAnswer) error { return setChange(c, sets, a, b, full) }); err != nil {
			return err
		}
	}
	return sourceChanges(c, x, full)
}

// printComparedRecords prints a table of the records that are compared for each of the two runs.
func printComparedRecords(c *cli.Console, x *wire.RunsComparison) error {
	var rows [][]string
	for _, run := range []*wire.ComparedRun{&x.A, &x.B} {
		cells := []string{cli.QuoteCell(run.RunID)}
		for _, of := range []struct {
			kind wire.Kind
			seq  *uint64
		}{{wire.KindIPCRecord, run.IPCRecordSeq}, {wire.KindRunDAG, run.RunDAGSeq}, {wire.KindCitationSet, run.CitationSetSeq}} {
			cell := cli.NoValueCell
			if of.seq != nil {
				cell = cli.FormatUint(*of.seq)
			}
			if slices.Contains(run.More, of.kind) {
				cell += " (there are more)"
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	return cli.NewTable(c.Out, cli.TextColumn("run"), cli.TextColumn("ipc record"), cli.TextColumn("run-dag"), cli.TextColumn("citation set")).WriteRows(rows)
}

// printPair fetches two records and prints their comparison after an empty line.
func printPair(c *cli.Console, row func(uint64) (*wire.RecordAnswer, error), a, b uint64, print func(a, b *wire.RecordAnswer) error) error {
	first, err := row(a)
	if err != nil {
		return err
	}
	second, err := row(b)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c.Out); err != nil {
		return err
	}
	return print(first, second)
}

// setChange prints the chunks that were added or removed between citation sets a and b, and the
// chunks that b cites from different sources.
func setChange(c *cli.Console, x *wire.CitationSetChange, a, b *wire.RecordAnswer, full bool) error {
	if _, err := fmt.Fprintf(c.Out, "From event %d to event %d: %s\n", x.A.Seq, x.B.Seq, cli.QuoteCell(x.Summary)); err != nil {
		return err
	}
	var rows [][]string
	for _, list := range []struct {
		change string
		chunks []string
		set    *wire.RecordAnswer
	}{{"added", x.Added, b}, {"removed", x.Removed, a}} {
		sources, err := sourcesOf(list.set)
		if err != nil {
			return err
		}
		for _, hash := range list.chunks {
			rows = append(rows, []string{list.change, chunk(hash, full), cli.QuoteCell(strings.Join(sources[hash], ", "))})
		}
	}
	for _, s := range x.OtherSources {
		rows = append(rows, []string{"kept", chunk(s.ChunkHash, full), fmt.Sprintf("%s, then %s", cli.QuoteCell(strings.Join(s.A, ", ")), cli.QuoteCell(strings.Join(s.B, ", ")))})
	}
	return printSection(c, rows, cli.TextColumn("change"), cli.TextColumn("chunk"), cli.TextColumn("sources"))
}

// sourcesOf returns the sorted IDs of the sources from which a citation set cites each chunk, keyed
// by chunk hash.
func sourcesOf(set *wire.RecordAnswer) (map[string][]string, error) {
	var e struct{ Record wire.CitationSetEvent }
	if err := json.Unmarshal(set.Event, &e); err != nil {
		return nil, fmt.Errorf("decoding the event in the server's response: %w", err)
	}
	sources := make(map[string][]string)
	for _, c := range e.Record.Citations {
		if !slices.Contains(sources[c.ChunkHash], c.SourceID) {
			sources[c.ChunkHash] = append(sources[c.ChunkHash], c.SourceID)
		}
	}
	for _, list := range sources {
		slices.Sort(list)
	}
	return sources, nil
}

// sourceChanges prints a table of changed sources. The table contains a source if it no longer
// lists a cited chunk, or if it was registered again with other chunks between the two runs.
func sourceChanges(c *cli.Console, x *wire.RunsComparison, full bool) error {
	var rows [][]string
	for _, lost := range x.LostChunks {
		rows = append(rows, []string{cli.QuoteCell(lost.SourceID), fmt.Sprintf("event %d cites %s, which event %d does not list", lost.Seq, chunk(lost.ChunkHash, full), lost.Registration)})
	}
	for _, s := range x.Reregistrations {
		rows = append(rows, []string{cli.QuoteCell(s.SourceID), fmt.Sprintf("event %d does not list the same chunks as event %d", s.B, s.A)})
	}
	return printSection(c, rows, cli.TextColumn("source"), cli.TextColumn("what changed"))
}

// chunk formats a chunk hash as a table cell, without its "sha256:" prefix.
func chunk(hash string, full bool) string { return HashCell(strings.TrimPrefix(hash, "sha256:"), full) }

package main

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// newUnstable returns the command for groups whose runs had the same conditions and different
// outputs.
func newUnstable(d *driftCommand) *cobra.Command {
	command := &cobra.Command{
		Use:   "unstable",
		Short: "Show runs with the same conditions and different outputs",
		Long: `Show groups of runs that have one ipc_id (the same input, prompt, model, and settings)
but different outputs. The least stable group comes first.`,
		Example: `  colophon drift unstable
  colophon drift unstable --since 7d`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			query := d.query(command)
			query.Set("sort", "stability")
			query.Set("min_outputs", "2")
			return d.groups(command, "ipc_id", query, "no two runs with the same conditions have different outputs")
		},
	}
	bindPeriod(command.Flags())
	d.pageFlags(command.Flags())
	return command
}

// newMismatches returns the command for records whose claims do not hold.
func newMismatches(d *driftCommand) *cobra.Command {
	command := &cobra.Command{
		Use:   "mismatches",
		Short: "Show records whose claimed hashes are not those that the ledger computed",
		Example: `  colophon drift mismatches --since 2026-01-01
  colophon show 41`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			query := d.query(command)
			query.Set("flag", "mismatch")
			t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("kind"), cli.TextColumn("fields"), cli.TextColumn("run"))
			return list(d, command, "/records", query, t, "no record has a claim that does not hold", func(r wire.ListedRecord) []string {
				return []string{cli.Decimal(r.Seq), cli.Plain(string(r.Time)), cli.Plain(string(r.Kind)), cli.Plain(strings.Join(r.Mismatches, ", ")), orNone(r.RunID)}
			})
		},
	}
	bindPeriod(command.Flags())
	d.pageFlags(command.Flags())
	return command
}

// newStale returns the command for citations of superseded chunks.
func newStale(d *driftCommand) *cobra.Command {
	command := &cobra.Command{
		Use:     "stale SOURCE",
		Short:   "Show citation sets that rest on a chunk that the source no longer has",
		Example: `  colophon drift stale handbook`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			query := d.query(command)
			query.Set("source_id", args[0])
			t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("subject"), cli.TextColumn("chunk"), cli.NumberColumn("superseded by"), cli.TextColumn("how"), cli.TextColumn("run"))
			return list(d, command, "/citation-sets/stale", query, t, "no citation of that source is stale", func(r wire.StaleRow) []string {
				return []string{cli.Decimal(r.Seq), cli.Plain(r.Subject), chunk(d, r.ChunkHash), cli.Decimal(r.SupersededBy), cli.Plain(r.How), cli.PlainOr(r.RunID)}
			})
		},
	}
	command.ValidArgsFunction = completeRows(d, "/sources", func(s wire.Source) string { return s.SourceID })
	d.pageFlags(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

// newConflicts returns the command for chunks under several sources.
func newConflicts(d *driftCommand) *cobra.Command {
	command := &cobra.Command{
		Use:     "conflicts",
		Short:   "Show chunks that are cited under several sources",
		Example: `  colophon drift conflicts --all`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("chunk"), cli.NumberColumn("sources"), cli.TextColumn("first cited by"))
			return list(d, command, "/citation-sets/conflicts", d.query(command), t, "no chunk is cited under several sources", func(r wire.Conflict) []string {
				uses := make([]string, len(r.Sources))
				for i, s := range r.Sources {
					uses[i] = s.SourceID + " (event " + cli.Decimal(s.Seq) + ")"
				}
				return []string{cli.Decimal(r.Seq), chunk(d, r.ChunkHash), cli.Decimal(r.SourceCount), cli.Plain(strings.Join(uses, ", "))}
			})
		},
	}
	d.pageFlags(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

// newDivergence returns the command for the run-DAGs of one question.
func newDivergence(d *driftCommand) *cobra.Command {
	command := &cobra.Command{
		Use:     "divergence QUESTION_HASH",
		Short:   "Show the run-DAGs of one question, and where each diverges from the one before",
		Example: `  colophon drift divergence 3609dc3060d2b43928749799d2ed7a49ced8a55f007fc60323032d9e676b2a53`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			query := d.query(command)
			query.Set("question_hash", args[0])
			t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("root"), cli.TextColumn("shape"), cli.TextColumn("state"),
				cli.NumberColumn("against"), cli.TextColumn("diverges at"), cli.TextColumn("run"))
			return list(d, command, "/run-dags/divergence", query, t, "no run-DAG has that question", func(r wire.DivergenceRow) []string {
				against := cli.None
				if r.Against != nil {
					against = cli.Decimal(*r.Against)
				}
				return []string{cli.Decimal(r.Seq), cli.Plain(string(r.Time)), d.hash(r.Root), cli.Plain(r.Shape), cli.Plain(string(r.State)), against,
					cli.PlainOr(r.FirstDivergingStage), cli.PlainOr(r.RunID)}
			})
		},
	}
	d.pageFlags(command.Flags())
	d.stateFlag(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

// newProducers returns the command for producers, and for the gaps of one.
func newProducers(d *driftCommand) *cobra.Command {
	command := &cobra.Command{
		Use:   "producers [ID]",
		Short: "Show what each producer delivered, and the gaps in its numbers",
		Example: `  colophon drift producers
  colophon drift producers web-1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 1 {
				return producer(d, command, args[0])
			}
			t := cli.NewTable(d.Out, cli.TextColumn("producer"), cli.NumberColumn("records"), cli.NumberColumn("complete to"), cli.NumberColumn("highest"), cli.NumberColumn("missing"), cli.NumberColumn("repeated"))
			return list(d, command, "/producers", d.query(command), t, "no record names a producer", func(r wire.ProducerRow) []string {
				return []string{cli.Plain(r.ID), cli.Decimal(r.Records), cli.Decimal(r.CompleteTo), cli.Decimal(r.Highest), cli.Decimal(r.Missing), cli.Decimal(r.Repeated)}
			})
		},
	}
	command.ValidArgsFunction = completeRows(d, "/producers", func(p wire.ProducerRow) string { return p.ID })
	d.pageFlags(command.Flags())
	return command
}

// producer prints the first page of the gaps and of the repetitions of one producer.
func producer(d *driftCommand, command *cobra.Command, id string) error {
	answer, text, err := fetchDrift[wire.ProducerAnswer](d, command, "/producers/"+url.PathEscape(id), d.query(command))
	if err != nil {
		return err
	}
	if d.json {
		return cli.PrintJSONLine(d.Out, text)
	}
	t := cli.NewTable(d.Out, cli.TextColumn("number"), cli.TextColumn("what"))
	var rows [][]string
	for _, gap := range answer.Gaps {
		numbers := cli.Decimal(gap.From)
		if gap.To > gap.From {
			numbers += " to " + cli.Decimal(gap.To)
		}
		rows = append(rows, []string{numbers, "missing"})
	}
	for _, r := range answer.Duplicates {
		rows = append(rows, []string{cli.Decimal(r.ProducerSeq), "event " + cli.Decimal(r.Seq) + " repeats event " + cli.Decimal(r.FirstSeq)})
	}
	d.Say("%s: %s, complete to %d, highest number %d, %d missing, %d repeated", cli.Plain(answer.ID), cli.Counted(answer.Records, "record"), answer.CompleteTo, answer.Highest, answer.Missing, answer.Repeated)
	if answer.Next != "" {
		d.Say("there may be more rows: --limit asks for more")
	}
	return t.Write(rows)
}

// pathHistory prints the versions of one path.
func pathHistory(d *driftCommand, command *cobra.Command, project, id string) error {
	t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("what"), cli.TextColumn("build"), cli.TextColumn("category"),
		cli.TextColumn("content"), cli.TextColumn("validated"))
	path := "/paths/" + url.PathEscape(project) + "/" + url.PathEscape(id)
	return list(d, command, path, d.query(command), t, "", func(r wire.PathVersion) []string {
		return []string{cli.Decimal(r.Seq), cli.Plain(string(r.Time)), cli.Plain(string(r.Kind)), cli.PlainOr(r.Build), cli.Plain(r.Category),
			d.hashOr(r.ContentFingerprint), strconv.FormatBool(r.Validated)}
	})
}

// chunk returns a chunk hash as a table cell.
func chunk(d *driftCommand, hash string) string { return d.hash(strings.TrimPrefix(hash, "sha256:")) }

func orNone(text string) string {
	if text == "" {
		return cli.None
	}
	return cli.Plain(text)
}

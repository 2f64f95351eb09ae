package drift

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
	"colophon/internal/show"
	"colophon/ledger/index/rundags"
)

func newMismatches(d *commands) *cobra.Command {
	command := &cobra.Command{
		Use:   "mismatches",
		Short: "Show records whose claimed hashes differ from those that the ledger computed",
		Example: `  colophon drift mismatches --since 2026-01-01
  colophon show 41`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			query := d.query(command)
			query.Set("flag", "mismatch")
			t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("kind"), cli.TextColumn("fields"), cli.TextColumn("run"))
			return list(d, command, "/records", query, t, "no record has a wrong claim", func(r wire.ListedRecord) []string {
				return []string{cli.FormatUint(r.Seq), cli.QuoteCell(string(r.Time)), cli.QuoteCell(string(r.Kind)), cli.QuoteCell(strings.Join(r.Mismatches, ", ")), orNoValue(r.RunID)}
			})
		},
	}
	bindPeriod(command.Flags())
	d.pageFlags(command.Flags())
	return command
}

func newConflicts(d *commands) *cobra.Command {
	command := &cobra.Command{
		Use:     "conflicts",
		Short:   "Show chunks that are cited under several sources",
		Example: `  colophon drift conflicts --all`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("chunk"), cli.NumberColumn("sources"), cli.TextColumn("first cited by"))
			return list(d, command, "/citation-sets/conflicts", d.query(command), t, "no chunk is cited under several sources", func(r wire.ChunkConflict) []string {
				uses := make([]string, len(r.Sources))
				for i, s := range r.Sources {
					uses[i] = s.SourceID + " (event " + cli.FormatUint(s.Seq) + ")"
				}
				return []string{cli.FormatUint(r.Seq), chunk(d, r.ChunkHash), cli.FormatUint(r.SourceCount), cli.QuoteCell(strings.Join(uses, ", "))}
			})
		},
	}
	d.pageFlags(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

func newDivergence(d *commands) *cobra.Command {
	command := &cobra.Command{
		Use:     "divergence QUESTION_HASH",
		Short:   "Show the run-DAGs of one question, and where each diverges from the previous one",
		Example: `  colophon drift divergence 3609dc3060d2b43928749799d2ed7a49ced8a55f007fc60323032d9e676b2a53`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			query := d.query(command)
			query.Set("question_hash", args[0])
			t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("root"), cli.TextColumn("shape"), cli.TextColumn("state"),
				cli.NumberColumn("against"), cli.TextColumn("diverges at"), cli.TextColumn("cause"), cli.TextColumn("run"))
			return list(d, command, "/run-dags/divergence", query, t, "no run-DAG has the given question hash", func(r wire.DivergenceRow) []string {
				against := cli.NoValueCell
				if r.PreviousSeq != nil {
					against = cli.FormatUint(*r.PreviousSeq)
				}
				return []string{cli.FormatUint(r.Seq), cli.QuoteCell(string(r.Time)), d.hash(r.Root), cli.QuoteCell(r.Shape), cli.QuoteCell(string(r.State)), against,
					cli.QuoteOptionalCell(r.FirstDivergingStage), runCause(&r), cli.QuoteOptionalCell(r.RunID)}
			})
		},
	}
	d.pageFlags(command.Flags())
	d.stateFlag(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

// runCause formats the cause of a divergence as a table cell. If several dimensions differ, the
// cell lists them.
func runCause(r *wire.DivergenceRow) string {
	if r.Cause == nil {
		return cli.NoValueCell
	}
	if *r.Cause == wire.DivergenceCauseConfounded {
		return cli.QuoteCell(string(*r.Cause) + ": " + strings.Join(r.DifferingDimensions, ", "))
	}
	return cli.QuoteCell(string(*r.Cause))
}

func newRunGroups(d *commands) *cobra.Command {
	var by string
	command := &cobra.Command{
		Use:   "run-groups",
		Short: "Show groups of run-DAGs, how they ended, and how many answers they have",
		Long: `Show groups of run-DAGs that have a hash in common. The group with the latest first
run-DAG comes first. With --since or --until, the group with the latest run-DAG comes first.
For each group, the table has the number of run-DAGs and of distinct answers, the share of
each verdict (audit mode, failure stage, and shape), and the first and last event.`,
		Example: `  colophon drift run-groups
  colophon drift run-groups --by model_profile_hash --since 30d`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			query := d.query(command)
			query.Set("by", by)
			query.Set("names", "true")
			t := cli.NewTable(d.Out, cli.TextColumn(by), cli.NumberColumn("runs"), cli.NumberColumn("answers"), cli.TextColumn("verdicts"),
				cli.NumberColumn("first"), cli.NumberColumn("last"), cli.TextColumn("last recorded"))
			return list(d, command, "/run-dags/groups", query, t, "no group of run-DAGs matches the filters", func(g wire.RunDAGGroup) []string {
				verdicts := make([]string, len(g.OutcomeCounts))
				for i, v := range g.OutcomeCounts {
					verdicts[i] = strings.Join([]string{cli.QuoteOptionalCell(v.AuditMode), cli.QuoteOptionalCell(v.FailureStage), cli.QuoteOptionalCell(v.Shape), cli.FormatPercent(float64(v.Share))}, " ")
				}
				return []string{d.hash(g.Value) + readableName(g.Name), cli.FormatUint(g.Runs), cli.FormatUint(g.DistinctAnswers), strings.Join(verdicts, ", "),
					cli.FormatUint(g.FirstRunSeq), cli.FormatUint(g.LastRunSeq), cli.QuoteCell(string(g.LastRunTime))}
			})
		},
	}
	command.Flags().StringVar(&by, "by", rundags.GroupFields[0], "`hash` that the run-DAGs have in common: "+strings.Join(rundags.GroupFields[:], ", "))
	completion.RegisterFlag(command, "by", completion.FromList(rundags.GroupFields[:]))
	command.Flags().Uint64("min-runs", 0, "only groups with at least this `number` of run-DAGs")
	bindPeriod(command.Flags())
	d.pageFlags(command.Flags())
	d.stateFlag(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

// readableName formats the name of a hash, to follow the hash in a table cell. It returns "" if the
// hash has no name.
func readableName(name *wire.ReadableName) (text string) {
	if name != nil && name.Words != "" {
		text = ` "` + cli.QuoteCell(show.FirstWords([]byte(name.Words)))
		if name.Truncated && !strings.HasSuffix(text, "…") {
			text += "…"
		}
		text += `"`
	}
	if name != nil && name.Label != "" {
		text += " (" + cli.QuoteCell(name.Label) + ")"
	}
	return text
}

func newProducers(d *commands) *cobra.Command {
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
				return []string{cli.QuoteCell(r.ID), cli.FormatUint(r.Records), cli.FormatUint(r.CompleteTo), cli.FormatUint(r.Highest), cli.FormatUint(r.Missing), cli.FormatUint(r.Repeated)}
			})
		},
	}
	command.ValidArgsFunction = completeRows(d, "/producers", func(p wire.ProducerRow) string { return p.ID })
	d.pageFlags(command.Flags())
	return command
}

// producer prints the missing and the repeated sequence numbers of one producer.
func producer(d *commands, command *cobra.Command, id string) error {
	path, query := "/producers/"+url.PathEscape(id), d.query(command)
	answer, text, err := fetch[wire.ProducerAnswer](d, command, path, query)
	if err != nil {
		return err
	}
	if !d.json {
		if _, err := fmt.Fprintf(d.Out, "%s: %s, no gaps through number %d, highest number %d, %d missing, %d repeated\n",
			cli.QuoteCell(answer.ID), cli.FormatCount(answer.Records, "record"), answer.CompleteTo, answer.Highest, answer.Missing, answer.Repeated); err != nil {
			return err
		}
	}
	query.Del("as_of") // the cursor contains the tree size
	t := cli.NewTable(d.Out, cli.TextColumn("number"), cli.TextColumn("what"))
	next, err := pages(d, command, path, query, "cursor", answer, text, producerRows, t, func(row []string) []string { return row })
	if err == nil {
		d.conclude(command, t, next, "", nil)
	}
	return err
}

// producerRows returns a table row for each gap and each repeated number on a page, and the cursor
// of the next page.
func producerRows(answer *wire.ProducerAnswer) (rows [][]string, next string) {
	for _, gap := range answer.Gaps {
		numbers := cli.FormatUint(gap.From)
		if gap.To > gap.From {
			numbers += " to " + cli.FormatUint(gap.To)
		}
		rows = append(rows, []string{numbers, "missing"})
	}
	for _, r := range answer.Duplicates {
		rows = append(rows, []string{cli.FormatUint(r.ProducerSeq), "event " + cli.FormatUint(r.Seq) + " repeats event " + cli.FormatUint(r.FirstSeq)})
	}
	return rows, answer.Next
}

// pathHistory prints the versions of one path. Each record or validation of the path makes a new
// version.
func pathHistory(d *commands, command *cobra.Command, project, id string) error {
	t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("recorded"), cli.TextColumn("what"), cli.TextColumn("build"), cli.TextColumn("category"),
		cli.TextColumn("content"), cli.TextColumn("validated"))
	path := "/paths/" + url.PathEscape(project) + "/" + url.PathEscape(id)
	return list(d, command, path, d.query(command), t, "", func(r wire.PathVersion) []string {
		return []string{cli.FormatUint(r.Seq), cli.QuoteCell(string(r.Time)), cli.QuoteCell(string(r.Kind)), cli.QuoteOptionalCell(r.Build), cli.QuoteCell(r.Category),
			d.hashOr(r.ContentFingerprint), strconv.FormatBool(r.Validated)}
	})
}

// chunk formats a chunk hash as a table cell, without the prefix "sha256:".
func chunk(d *commands, hash string) string { return d.hash(strings.TrimPrefix(hash, "sha256:")) }

func orNoValue(text string) string {
	if text == "" {
		return cli.NoValueCell
	}
	return cli.QuoteCell(text)
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// maxValues is the maximum number of values that a message lists.
const maxValues = 8

// fewOf joins the first maxValues texts with commas, and adds an ellipsis if there are more.
func fewOf(texts []string) string {
	if len(texts) > maxValues {
		return strings.Join(texts[:maxValues], ", ") + ", …"
	}
	return strings.Join(texts, ", ")
}

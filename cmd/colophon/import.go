package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/completion"
	"colophon/internal/importer"
	"colophon/internal/remote"
	"colophon/internal/size"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/formats"
)

// importOptions holds the flags of the import command.
type importOptions struct {
	server     remote.Options
	ledger     string
	onMismatch string // accept or reject; "" means the ledger's setting
	retries    int    // number of retries after a failed attempt; an answered line resets the count
	maxLine    size.Bytes

	// The fields below describe files written by other systems. They are empty if the files are
	// already in the batch format.
	format, zone, project, subject, report string
	dryRun                                 bool
	kind                                   string // kind of the records if the lines themselves do not name it
}

func newImport(c *cli.Console) *cobra.Command {
	var o importOptions
	command := &cobra.Command{
		Use:   "import FILE...",
		Short: "Post the records of NDJSON files, or of files of other systems, to a server",
		Long: `Post records to a server as fast as it accepts them. Each FILE has one record per line:
{"kind": …, "record": {…}, "idempotency_key"?: …}. A FILE can also be an array of these, or
one such object on several lines. With --kind, records can stand alone: {"payload": …, "model": …}. A
FILE can be compressed with gzip or zstd. - is the standard input.

You can interrupt an import and run it again. The server does not add a record twice; it
reports a record that it already has as replayed. To make this work, import gives an
idempotency key to each line that has neither idempotency_key nor run_id. This key comes
from the line's digest and from the number of times that the line has occurred in this
import, so two equal lines become two records. To count them, import keeps up to 100 bytes
in memory for each different line without idempotency_key and run_id. If the connection
drops or the server has no space, import waits, reconnects and continues.

With --format, import reads files that another system wrote, without changes to them:

  axis-log          run_log.jsonl of an axis lab, with or without its hashes
  axis-save         folders of an axis lab with metadata.json, or folders of such folders
  citations         citations.json of a run, or folders of runs
  validation-cache  a story's validation cache; needs --project
  providence        providence_cache: an SQLite file, or its rows as NDJSON
  langfuse          observations of Langfuse: JSON, JSON lines, or CSV, from its user
                    interface, its API, or an export to blob storage
  mlflow            traces of MLflow: the JSON of traces, or rows of mlflow.search_traces
                    (to_json with orient="records")
  phoenix           spans of Phoenix: a dataframe as Parquet or as JSON (to_json with
                    orient="records"), or JSON of its API

The last three become IPC records, as the same spans sent over OTLP would. Spans that are
not generations are left out. Hashes in the files become claims. States and validations are posted after their records.
A member that has no field in a record becomes a label or content. At the end,
import prints what it did with every member, and names the first members that it left out.
--report writes this for every entry, and for every line that could not be read. With
--dry-run, nothing is sent. A second import of the same files adds nothing.

import also prints how many lines of each kind were accepted, replayed (the ledger
already had them), mismatched (accepted, but a claimed hash differs from the computed
one; GET /records?flag=mismatch lists them), incomplete (accepted, but an IPC record
lacks a part of the ipc_id; GET /records?incomplete=seed lists those without a seed) and
refused.

Exit codes: 0 the server has all lines, 1 a line was refused or could not be read, 2 bad
arguments or no such file, 3 the server cannot be reached.`,
		Example: `  colophon import generations.ndjson.gz run-dags.ndjson.zst
  zcat old.ndjson.gz | colophon import --ledger archive --on-mismatch reject -
  colophon import --format axis-save --dry-run data
  colophon import --format validation-cache --project story --zone America/New_York allpaths-validation-status.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			return runImport(command.Context(), c, o, files)
		},
	}
	o.server.Bind(c, command.Flags())
	remote.BindLedgerFlag(c, command.Flags(), &o.ledger)
	command.Flags().StringVar(&o.onMismatch, "on-mismatch", "", "accept or reject records whose claims do not match their content (`policy`); the default is the setting of the ledger")
	flags := command.Flags()
	flags.StringVar(&o.format, "format", "", "the `format` of the files: "+formats.JoinNames(formats.ImportFormats)+"; the default is lines in the form of POST /batch")
	flags.StringVar(&o.kind, "kind", "", "`kind` of the records in the files, if they stand alone, without {\"kind\": …, \"record\": …}")
	flags.StringVar(&o.zone, "zone", "", "time `zone` for times that have none: UTC, +01:00, or Europe/Berlin; without --zone, such a time becomes a label")
	flags.StringVar(&o.project, "project", "", "`name` of the project of a validation cache")
	flags.StringVar(&o.subject, "subject", "", "`subject` of the citation sets; the default is the name of the folder of citations.json")
	flags.BoolVar(&o.dryRun, "dry-run", false, "with --format: report what import would post, and send nothing")
	flags.StringVar(&o.report, "report", "", "with --format: write what import did with each member of each entry to this `file`, as NDJSON; an existing file is replaced")
	command.Flags().IntVar(&o.retries, "retries", 8, "`number` of retries after a failed attempt; an answered line resets the count")
	o.maxLine = 8 << 20
	command.Flags().TextVar(&o.maxLine, "max-line", o.maxLine, "maximum `size` of a line; the server has its own limit")
	return command
}

func runImport(ctx context.Context, c *cli.Console, o importOptions, files []string) (err error) {
	switch o.onMismatch {
	case "", ledger.MismatchPolicyAccept, ledger.MismatchPolicyReject:
	default:
		return cli.ExitErrorf(cli.ExitUsage, "--on-mismatch: %q is not valid; use accept or reject", o.onMismatch)
	}
	if o.kind != "" && !slices.Contains(record.RecordKinds[:], record.Kind(o.kind)) {
		return cli.ExitErrorf(cli.ExitUsage, "--kind: %q is not a kind of record; use %s", o.kind, strings.Join(completion.AddPrefix("", record.RecordKinds[:]), ", "))
	}
	native, err := o.native()
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	size, err := checkFiles(files, native != nil && importer.AcceptsFolders(native.Format))
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	if o.report != "" {
		f, createErr := o.createReport(files)
		if createErr != nil {
			return cli.ExitErrorf(cli.ExitUsage, "--report: %w", createErr)
		}
		defer func() {
			if closeErr := f.Close(); closeErr != nil {
				err = o.reportFailed(c, closeErr, err)
			}
		}()
		native.ReportWriter = f
	}
	if native != nil && native.DryRun {
		defer c.ExitOnInterrupt(ctx)()
		tally, err := importer.Run(ctx, nil, importer.Options{MaxLineBytes: int(o.maxLine), Stdin: c.In, Native: native}, files)
		if err == nil {
			c.PrintErrf("dry run: nothing was sent")
		}
		return o.conclude(c, tally, err)
	}
	server, err := o.server.Connect(c)
	if err != nil {
		return err
	}
	if err := checkWritable(ctx, server, o.ledger); err != nil {
		return err
	}
	bar := cli.NewProgress(c, size, "importing", progressbar.OptionShowBytes(true))
	attempts := 1
	notify := func(err error, failures int, pause time.Duration) {
		attempts = failures + 1
		bar.Printf("%v; retrying in %.1f s (retry %d of %d)", server.Explain(err), pause.Seconds(), failures, o.retries)
	}
	patient, err := server.NewClient(client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: max(0, o.retries) + 1, LongestPause: time.Minute, Notify: notify}))
	if err != nil {
		return err
	}
	tally, err := importer.Run(ctx, patient.Ledger(o.ledger),
		importer.Options{MismatchPolicy: o.onMismatch, MaxLineBytes: int(o.maxLine), Stdin: c.In, OnRead: bar.Add, Native: native, DefaultKind: o.kind}, files)
	bar.Finish()
	if err != nil {
		err = explainImport(ctx, server, err, attempts)
	}
	return o.conclude(c, tally, err)
}

// createReport creates the file for --report. It refuses to replace one of the files to import.
func (o *importOptions) createReport(files []string) (*os.File, error) {
	existing, err := os.Stat(o.report)
	for _, name := range files {
		if input, statErr := os.Stat(name); err == nil && statErr == nil && os.SameFile(existing, input) {
			return nil, fmt.Errorf("%s is also a file to import; choose another file", o.report)
		}
	}
	return os.Create(o.report)
}

// reportFailed returns the error of the command if the report cannot be written because of cause.
// err is the import's own error. If it is not nil, reportFailed returns it and only prints cause.
func (o *importOptions) reportFailed(c *cli.Console, cause, err error) error {
	switch {
	case err != nil:
		c.PrintErrf("--report: %v", cause)
		return err
	case o.dryRun:
		return fmt.Errorf("--report: %w", cause)
	}
	return fmt.Errorf("--report: %w; all lines were sent", cause)
}

// conclude prints the tally and returns the error that the command returns. err is the import's own
// error, which may be nil.
func (o *importOptions) conclude(c *cli.Console, tally *importer.Tally, err error) error {
	if printErr := printTally(c, tally); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err == nil && len(tally.Failures) > 0 {
		err = &cli.ExitError{Code: cli.ExitFailed}
	}
	if tally.ReportErr != nil {
		err = o.reportFailed(c, tally.ReportErr, err)
	}
	return err
}

// native builds the options for files written by other systems from the flags. It returns nil if
// --format is not given, because the files are then already in the batch format.
func (o *importOptions) native() (*importer.NativeOptions, error) {
	if o.format == "" {
		if o.zone != "" || o.project != "" || o.subject != "" || o.report != "" || o.dryRun {
			return nil, errors.New("--zone, --project, --subject, --report, and --dry-run require --format")
		}
		return nil, nil
	}
	if o.kind != "" {
		return nil, errors.New("--kind and --format are mutually exclusive: the format determines the kinds")
	}
	format, err := formats.Parse(o.format, formats.ImportFormats)
	if err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	n := &importer.NativeOptions{Format: format, Project: o.project, Subject: o.subject, DryRun: o.dryRun}
	if o.zone != "" {
		if n.Zone, err = formats.ParseZone(o.zone); err != nil {
			return nil, fmt.Errorf("--zone: %w", err)
		}
	}
	return n, nil
}

// explainImport adds advice to the error that stopped an import.
func explainImport(ctx context.Context, server *remote.Connection, err error, attempts int) error {
	problem := (*client.Error)(nil)
	switch {
	case ctx.Err() != nil:
		return cli.ExitErrorf(cli.ExitFailed, "interrupted; run the same import again to continue")
	case errors.Is(err, client.ErrTLSMismatch):
		return server.ExplainFatal(err)
	case errors.As(err, &problem) && !problem.Temporary():
		return fmt.Errorf("the server refused the import: %w", server.Explain(err))
	}
	return cli.ExitErrorf(cli.ExitUnreachable, "giving up after %s: %w\nRun the same import again to continue", cli.FormatCount(uint64(attempts), "attempt"), server.Explain(err))
}

// printTally prints the tally as a table to standard output. It prints the first failures and the
// first omitted members to standard error.
func printTally(c *cli.Console, t *importer.Tally) error {
	const row = "%-20s %10d %10d %10d %10d %10d\n"
	var table strings.Builder
	fmt.Fprintf(&table, "%-20s %10s %10s %10s %10s %10s\n", "kind", "accepted", "replayed", "mismatched", "incomplete", "refused")
	for _, k := range t.CountsByKind {
		fmt.Fprintf(&table, row, k.Kind, k.Accepted, k.Replayed, k.Mismatched, k.Incomplete, k.Refused)
	}
	total := t.Total()
	fmt.Fprintf(&table, row, "total", total.Accepted, total.Replayed, total.Mismatched, total.Incomplete, total.Refused)
	for _, part := range fields.IPCParts {
		if n := t.MissingPartCounts[part]; n > 0 {
			fmt.Fprintf(&table, "%s without %s\n", cli.FormatCount(uint64(n), "record"), part)
		}
	}
	if len(t.MemberCounts) > 0 {
		fmt.Fprintf(&table, "\n%10s  %s\n", "count", "member")
	}
	for _, m := range t.MemberCounts {
		colon := ""
		if m.Outcome == formats.OutcomeLeftOut {
			colon = ":" // the reason follows
		}
		fmt.Fprintf(&table, "%10d  %s: %s%s %s\n", m.Count, m.Pattern, m.Outcome, colon, m.Detail)
	}
	if _, err := io.WriteString(c.Out, table.String()); err != nil {
		return err
	}
	for _, warning := range t.Warnings {
		c.PrintErrf("%s", warning)
	}
	for _, note := range t.MismatchNotes {
		c.PrintErrf("%s", note)
	}
	if more := total.Mismatched - len(t.MismatchNotes); more > 0 {
		c.PrintErrf("and %d more lines have wrong claims", more)
	}
	for _, left := range t.LeftOutMemberNotes {
		c.PrintErrf("%s", left)
	}
	if more := t.LeftOutMemberCount - len(t.LeftOutMemberNotes); more > 0 {
		c.PrintErrf("and %d more members were left out; use --report to list all of them", more)
	}
	for _, failure := range t.Failures {
		c.PrintErrf("%s", failure)
	}
	if more := total.Refused - len(t.Failures); more > 0 {
		c.PrintErrf("and %d more lines failed", more)
	}
	return nil
}

// checkFiles returns an error if a file is missing, so that import fails before it sends anything.
// Folders are allowed if folders is set. size is the total number of bytes to read, or -1 if it is
// not known.
func checkFiles(files []string, folders bool) (size int64, err error) {
	stdin, known := 0, true
	for _, name := range files {
		if name == "-" {
			stdin, known = stdin+1, false
			continue
		}
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("file %s does not exist", name)
		}
		if err != nil {
			return 0, err
		}
		if info.IsDir() && folders {
			known = false
			continue
		}
		if info.IsDir() {
			return 0, fmt.Errorf("%s is a folder; specify the files in it", name)
		}
		size += info.Size()
		known = known && info.Mode().IsRegular()
	}
	if stdin > 1 {
		return 0, errors.New("standard input can be read only once; specify - only once")
	}
	if !known {
		return -1, nil
	}
	return size, nil
}

// checkWritable returns an error if the ledger does not exist or is frozen, so that import fails
// before it sends anything.
func checkWritable(ctx context.Context, server *remote.Connection, name string) error {
	description, err := server.Ledger(name).Describe(ctx)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return cli.ExitErrorf(cli.ExitUsage, "the server has no ledger %q%s; create it with: colophon ledger create %s", name, server.MissingGrantHint(), name)
	case err != nil:
		return server.ExplainFatal(err)
	case description.Frozen:
		return cli.ExitErrorf(cli.ExitFailed, "ledger %q is frozen and accepts no records; specify another ledger with --ledger", name)
	}
	return nil
}

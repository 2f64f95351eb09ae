package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/export"
	"colophon/internal/remote"
	"colophon/internal/safefile"
	"colophon/internal/table"
	"colophon/proofs/pack"
)

type exportCommand struct {
	*cli.Console
	server  remote.Options
	file    string
	options export.PackOptions
	chosen  recordChoice
	table   export.TableOptions
}

func newExport(c *cli.Console) *cobra.Command {
	e := &exportCommand{Console: c, options: export.PackOptions{MaxContentSize: 64 << 20}}
	command := &cobra.Command{
		Use:   "export {--pack FILE [SEQ...] | --format FORMAT --out FILE --question PATH}",
		Short: "Write an audit pack, or the rows of a question as Parquet, CSV or NDJSON",
		Long: `With --format, write all rows of a list or question, as they were at one tree size, and
beside the file its manifest, FILE.manifest.json. The ledger signs the manifest: question,
tree size, number of rows, and a hash of each row. colophon verify FILE names each row
that was changed, added, or removed. PATH is the path of the question below the ledger's,
with its parameters, as in the API: /records?kind=ipc_record, /drift/groups?by=input,
/drift/effects?variable=model&a=claude-2&b=claude-2.1. In CSV and Parquet, the column _row has the
exact JSON of the row.

With --pack, write an audit pack: one HTML file with records, their content and their
proofs. Readers need no other software. Any browser opens the file and verifies it without
a network; colophon verify does the same on the command line.

Choose records by number or by filters. With several filters, a record must pass all of
them. The pack also has the events that erased content of these records. It has all
content of the records that is not erased and that the token is allowed to read. Anyone
who gets the file can read this content. All proofs are for one tree size.`,
		Example: `  colophon export --format parquet --out records.parquet --question '/records?kind=ipc_record'
  colophon export --format csv --out effects.csv --question '/drift/effects?variable=model&a=claude-2&b=claude-2.1' --as-of 5000
  colophon export --pack answer-311.html --run-id answer/311
  colophon export --pack two.html 41 42 --without-content
  colophon export --pack march.html --label user=7431 --since 2026-03-01T00:00:00Z --until 2026-04-01T00:00:00Z`,
		RunE: func(command *cobra.Command, args []string) error { return e.run(command, args) },
	}
	flags := command.Flags()
	e.server.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &e.options.Ledger)
	flags.StringVar(&e.file, "pack", "", "`file` to write; an existing file is replaced")
	flags.BoolVar(&e.options.WithoutContent, "without-content", false, "omit content; the pack has only events and proofs")
	flags.IntVar(&e.options.MaxRecords, "max-records", 1000, "maximum `number` of records")
	flags.TextVar(&e.options.MaxContentSize, "max-content", e.options.MaxContentSize, "maximum total `size` of the content")
	flags.StringVar((*string)(&e.table.Format), "format", "", "`format` of the rows: parquet, csv, or ndjson")
	flags.StringVar(&e.table.File, "out", "", "`file` for the rows; an existing file and its manifest are replaced")
	flags.StringVar(&e.table.QueryPath, "question", "", "`path` of the list or question, relative to the ledger's path")
	flags.Uint64Var(&e.table.AsOf, "as-of", 0, "tree `size` of the rows; 0 is the current size")
	e.chosen.bind(flags)
	return command
}

func (e *exportCommand) run(command *cobra.Command, args []string) error {
	if e.table != (export.TableOptions{}) {
		return e.runTable(command, args)
	}
	seqs, filter, err := e.choice(command.Flags(), args)
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	server, err := e.server.Connect(e.Console, client.WithMaxResponseBytes(max(64<<20, int64(e.options.MaxContentSize))))
	if err != nil {
		return err
	}
	p, report, err := export.BuildPack(command.Context(), e.Console, server, e.options, seqs, filter)
	if err != nil {
		return err
	}
	html, err := p.HTML()
	if err != nil {
		return err
	}
	if err := e.write(html); err != nil {
		return err
	}
	return e.conclude(p, report)
}

// runTable writes the rows of a query and their manifest to files.
func (e *exportCommand) runTable(command *cobra.Command, args []string) error {
	if err := e.checkTable(command.Flags(), args); err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	server, err := e.server.Connect(e.Console)
	if err != nil {
		return err
	}
	e.table.Ledger = e.options.Ledger
	done, err := export.WriteTable(command.Context(), e.Console, server, e.table)
	if err != nil {
		return err
	}
	digest := done.Manifest.Digest()
	_, err = fmt.Fprintf(e.Out, "%s: %s of %s at tree size %d of ledger %s\nManifest: %s%s, digest %x\nCheck both with: colophon verify %[1]s --key %[9]s\n",
		e.table.File, cli.FormatCount(done.Manifest.RowCount, "row"), done.Manifest.Question, done.Manifest.Size, e.table.Ledger,
		e.table.File, table.ManifestSuffix, digest, done.VerifierKey)
	return err
}

// checkTable checks the flags that export rows.
func (e *exportCommand) checkTable(flags *pflag.FlagSet, args []string) error {
	switch {
	case e.file != "":
		return errors.New("--pack cannot be combined with --format, --out, --question, or --as-of")
	case e.table.Format == "":
		return errors.New("--format is missing: use parquet, csv, or ndjson")
	case !slices.Contains(table.Formats, e.table.Format):
		return fmt.Errorf("unknown format %q for --format; use parquet, csv, or ndjson", e.table.Format)
	case e.table.File == "":
		return errors.New("--out is missing: specify the file to write")
	case e.table.QueryPath == "":
		return errors.New("--question is missing: specify the path of a list or question, such as '/records?kind=ipc_record'")
	case len(args) > 0:
		return errors.New("record numbers require --pack; to select rows, add query parameters to --question")
	}
	return e.rejectPackFlags(flags)
}

// rejectPackFlags returns an error if a flag is set that has an effect only with --pack.
func (e *exportCommand) rejectPackFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		filter := strings.ReplaceAll(f.Name, "-", "_") + "=" + f.Value.String()
		switch {
		case f.Name == "without-content" || f.Name == "max-records" || f.Name == "max-content":
			err = fmt.Errorf("--%s requires --pack", f.Name)
			return
		case f.Name == "label":
			filter = "label:" + e.chosen.labels[0]
		case f.Name == "where":
			filter = e.chosen.where[0]
		case !isFilter(f.Name):
			return
		}
		err = fmt.Errorf("--%s selects records of --pack; put the filter into --question: '/records?%s'", f.Name, filter)
	})
	return err
}

// choice returns either the record numbers or the filters given on the command line. It also checks
// the other flags of an audit pack.
func (e *exportCommand) choice(flags *pflag.FlagSet, args []string) ([]uint64, map[string]string, error) {
	switch {
	case e.file == "":
		return nil, nil, errors.New("nothing to export: use --pack FILE for an audit pack, or --format, --out, and --question for rows")
	case e.options.MaxRecords < 1:
		return nil, nil, errors.New("--max-records must be at least 1")
	}
	return e.chosen.read(flags, args)
}

// write writes the audit pack. It returns an error if the pack is too large for colophon verify.
func (e *exportCommand) write(html []byte) error {
	if len(html) > cli.MaxPackBytes {
		return cli.ExitErrorf(cli.ExitFailed, "the audit pack is %d bytes long, but colophon verify reads at most %d: choose fewer records, or omit content with --without-content", len(html), cli.MaxPackBytes)
	}
	return safefile.Replace(e.file, html)
}

// conclude prints what the audit pack contains and how to verify it.
func (e *exportCommand) conclude(p *pack.Pack, r pack.Report) error {
	content := fmt.Sprintf("%s of content, %s with erased content", cli.FormatCount(uint64(len(p.Contents)), "piece"), cli.FormatCount(uint64(r.RedactedRecords), "record"))
	switch p.ContentStatus {
	case pack.ContentStatusOmitted:
		content = "no content"
	case pack.ContentStatusForbidden:
		content = "no content, because the token does not grant access to it"
	}
	_, err := fmt.Fprintf(e.Out, "%s: %s of ledger %s at tree size %d, %s\nOpen it in a browser, or: colophon verify %s --key %s\n",
		e.file, cli.FormatCount(uint64(r.Events), "event"), p.Ledger, r.Checkpoint.Size, content, e.file, p.VerifierKeys[0])
	return err
}

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/export"
	"colophon/internal/remote"
	"colophon/internal/safefile"
	"colophon/ledger"
	"colophon/proofs/pack"
)

type exportCommand struct {
	*cli.Console
	server  remote.Options
	file    string
	options export.Options
	chosen  recordChoice
}

func newExport(c *cli.Console) *cobra.Command {
	e := &exportCommand{Console: c, options: export.Options{MaxContent: 64 << 20}}
	command := &cobra.Command{
		Use:   "export --pack FILE [SEQ...]",
		Short: "Write records and their proofs into one page that verifies itself",
		Long: `Write an audit pack: one HTML file with records, their content and their proofs. Readers
need no other software. Any browser opens the file and verifies it without a network;
colophon verify does the same on the command line.

Choose records by number or by filters. With several filters, a record must pass all of
them. The pack also has the events that erased content of these records. It has all
content of the records that is not erased and that the token is allowed to read. Anyone
who gets the file can read this content. All proofs are for one tree size.`,
		Example: `  colophon export --pack answer-311.html --run-id answer/311
  colophon export --pack two.html 41 42 --without-content
  colophon export --pack march.html --label user=7431 --since 2026-03-01T00:00:00Z --until 2026-04-01T00:00:00Z`,
		RunE: func(command *cobra.Command, args []string) error { return e.run(command, args) },
	}
	flags := command.Flags()
	e.server.Bind(c, flags)
	flags.StringVar(&e.options.Ledger, "ledger", ledger.Default, "`name` of the ledger")
	flags.StringVar(&e.file, "pack", "", "`file` to write; an existing file is replaced")
	flags.BoolVar(&e.options.WithoutContent, "without-content", false, "leave out content; the pack has only events and proofs")
	flags.IntVar(&e.options.MaxRecords, "max-records", 1000, "largest `number` of records")
	flags.TextVar(&e.options.MaxContent, "max-content", e.options.MaxContent, "largest `size` of all content")
	e.chosen.bind(flags)
	return command
}

func (e *exportCommand) run(command *cobra.Command, args []string) error {
	seqs, filter, err := e.choice(command.Flags(), args)
	if err != nil {
		return cli.Exitf(cli.ExitUsage, "%w", err)
	}
	server, err := e.server.Connect(e.Console, client.WithMaxAnswer(max(64<<20, int64(e.options.MaxContent))))
	if err != nil {
		return err
	}
	p, report, err := export.Make(command.Context(), e.Console, server, e.options, seqs, filter)
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

// choice returns the record numbers or filters of the command line, and checks the other flags.
func (e *exportCommand) choice(flags *pflag.FlagSet, args []string) ([]uint64, map[string]string, error) {
	switch {
	case e.file == "":
		return nil, nil, errors.New("--pack is missing: name the file to write")
	case e.options.MaxRecords < 1:
		return nil, nil, errors.New("--max-records must be at least 1")
	}
	return e.chosen.read(flags, args)
}

// write writes the page. It refuses a page that is too large for colophon verify.
func (e *exportCommand) write(html []byte) error {
	if len(html) > cli.MaxPack {
		return cli.Exitf(cli.ExitFailed, "the audit pack has %d bytes, but colophon verify reads at most %d: choose fewer records, or leave out content with --without-content", len(html), cli.MaxPack)
	}
	return safefile.Replace(e.file, html)
}

// conclude prints what the file contains and how to verify it.
func (e *exportCommand) conclude(p *pack.Pack, r pack.Report) error {
	content := fmt.Sprintf("%s of content, %s with erased content", cli.Counted(uint64(len(p.Contents)), "piece"), cli.Counted(uint64(r.Redacted), "record"))
	switch p.Content {
	case pack.ContentLeftOut:
		content = "no content"
	case pack.ContentNoRight:
		content = "no content, which the token may not read"
	}
	_, err := fmt.Fprintf(e.Out, "%s: %s of ledger %s at tree size %d, %s\nOpen it in a browser, or: colophon verify %s --key %s\n",
		e.file, cli.Counted(uint64(r.Records), "event"), p.Ledger, r.Checkpoint.Size, content, e.file, p.Keys[0])
	return err
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
)

type redactCommand struct {
	*cli.Console
	server  remote.Options
	ledger  string
	request wire.RedactionRequest
	dryRun  bool
	choice  recordChoice
	yes     bool
	json    bool
}

func newRedact(c *cli.Console) *cobra.Command {
	r := &redactCommand{Console: c}
	command := &cobra.Command{
		Use:   "redact [SEQ...]",
		Short: "Erase the content of records and keep the proofs",
		Long: `Erase the content of records. Choose records by number or by filters. With several
filters, a record must pass all of them. The log keeps an event with the record numbers
and the reason permanently, so put nothing into the reason that you might have to erase
later. The log, receipts and proofs stay as they are. The ledger keeps content that other
records need.

The server first reports what it would erase. On a terminal, the command then asks for
the name of the ledger; elsewhere, it needs --yes. An erasure cannot be undone. If no
record passes the filters, the command fails. If redact is interrupted, run the same
command again to erase the rest.

With --json, redact prints the server's answers, one JSON document per line: the dry
run, then the result with its receipts.`,
		Example: `  colophon redact 41 --reason 'Erasure request 2025-118.' --dry-run
  colophon redact --label user=7431 --reason 'Erasure request 2025-118.'
  colophon redact --project harrow-vale --until 2024-01-01T00:00:00Z --reason 'Kept for a year.' --yes
  colophon redact --where output_hash=9f86… --reason 'Not ours to keep.'`,
		RunE: func(command *cobra.Command, args []string) error { return r.run(command, args) },
	}
	flags := command.Flags()
	r.server.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &r.ledger)
	flags.StringVar(&r.request.Reason, "reason", "", "`reason` for the redaction; it stays in the log")
	r.choice.bind(flags)
	flags.BoolVar(&r.dryRun, "dry-run", false, "report what redact would erase, without erasing it")
	flags.BoolVar(&r.yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&r.json, "json", false, "print the server's responses as JSON, one document per line")
	return command
}

func (r *redactCommand) run(command *cobra.Command, args []string) error {
	if err := r.choose(command.Flags(), args); err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	server, err := r.server.Connect(r.Console, client.WithTimeout(0)) // no timeout, because a redaction takes longer the more records it covers
	if err != nil {
		return err
	}
	request := r.request
	request.DryRun = new(true)
	plan, err := r.send(command, server, request)
	if err != nil {
		return err
	}
	if !r.json {
		if err := r.printPlan(plan); err != nil {
			return err
		}
	}
	switch {
	case plan.Records+plan.AlreadyRedacted+plan.WithoutContent == 0 && len(request.Filter) > 0:
		return cli.ExitErrorf(cli.ExitFailed, "no record matches %s; check the filters", r.filterText())
	case plan.Records == 0:
		r.PrintErrf("none of the selected records has content to erase")
		return nil
	case r.dryRun:
		return nil
	case !r.yes:
		if err := r.Confirm(command.Context(), r.ledger, "erasing content cannot be undone", "erased"); err != nil {
			return err
		}
	}
	request.DryRun, request.AsOf = new(false), &plan.AsOf
	done, err := r.send(command, server, request)
	if err != nil || r.json {
		return err
	}
	return r.printDone(done)
}

// choose puts the records that the command line selects into the request. It returns an error if
// the request has no reason.
func (r *redactCommand) choose(flags *pflag.FlagSet, args []string) error {
	if r.request.Reason == "" {
		return errors.New("--reason is missing: give a reason; it is recorded permanently in the log")
	}
	seqs, filter, err := r.choice.read(flags, args)
	if err != nil || filter == nil {
		r.request.Seqs = seqs
		return err
	}
	r.request.Filter = make(map[string]any)
	for name, value := range filter {
		r.request.Filter[name] = value
	}
	return nil
}

// filterText formats the filters, sorted by name, for an error message.
func (r *redactCommand) filterText() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.request.Filter)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, r.request.Filter[name]))
	}
	return strings.Join(parts, ", ")
}

// send sends a request and parses the response. With --json, it also prints the response.
func (r *redactCommand) send(command *cobra.Command, server *remote.Connection, request wire.RedactionRequest) (*wire.RedactionResult, error) {
	body, err := wire.Marshal(request)
	if err != nil {
		return nil, err
	}
	path := remote.LedgerPath(r.ledger) + "/redactions"
	answer, text, err := remote.DoJSON[wire.RedactionResult](command.Context(), server, client.Request{Method: http.MethodPost, Path: path, Body: body})
	if err == nil && r.json {
		err = cli.PrintJSONLine(r.Out, text)
	}
	return answer, err
}

func (r *redactCommand) printPlan(plan *wire.RedactionResult) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "at tree size\t%d\n", plan.AsOf)
	fmt.Fprintf(table, "records to redact\t%d%s\n", plan.Records, listed(plan.FirstSeqs, plan.Records))
	fmt.Fprintf(table, "redacted already\t%d\n", plan.AlreadyRedacted)
	fmt.Fprintf(table, "without content\t%d\n", plan.WithoutContent)
	fmt.Fprintf(table, "content to be erased\t%s\n", counted(plan.Erased))
	fmt.Fprintf(table, "content to be kept\t%s, needed by %s\n", counted(plan.Kept), cli.FormatCount(plan.NeededBy, "other record"))
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := text.WriteTo(r.Out)
	return err
}

func (r *redactCommand) printDone(done *wire.RedactionResult) error {
	var seqs []uint64
	events := uint64(len(done.Receipts))
	if done.Events != nil {
		events = *done.Events
	}
	for _, receipt := range done.Receipts {
		seqs = append(seqs, receipt.Seq)
	}
	_, err := fmt.Fprintf(r.Out, "\nredacted %s with %s%s\nOlder backups still contain the erased content; colophon backup --keep removes these backups\n", cli.FormatCount(done.Records, "record"), cli.FormatCount(events, "event"), listed(seqs, events))
	return err
}

// counted formats the number of pieces of content and their total size in bytes.
func counted(p wire.ContentCount) string {
	return cli.FormatCount(p.Pieces, "piece") + ", " + cli.FormatCount(p.Bytes, "byte")
}

// listed formats at most ten event numbers, with an ellipsis at the end if there are more events.
// total is the total number of events.
func listed(seqs []uint64, total uint64) string {
	const most = 10
	if len(seqs) == 0 {
		return ""
	}
	var names []string
	for _, seq := range seqs[:min(len(seqs), most)] {
		names = append(names, cli.FormatUint(seq))
	}
	if uint64(len(names)) < total {
		names = append(names, "…")
	}
	return ": " + strings.Join(names, ", ")
}

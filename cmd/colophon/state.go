package main

import (
	"bytes"
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
	"colophon/internal/remote"
	"colophon/ledger/record"
)

// stateCommand holds the flags of the state command, which changes the state of records.
type stateCommand struct {
	*cli.Console
	server  remote.Options
	ledger  string
	request wire.StateChangeRequest
	choice  recordChoice
	dryRun  bool
	json    bool
}

func newState(c *cli.Console) *cobra.Command {
	s := &stateCommand{Console: c}
	command := &cobra.Command{
		Use:   "state STATE [SEQ...]",
		Short: "Change the state of records",
		Long: `Change the state of IPC records and run-DAGs to live, failed, stale or quarantined.
Choose records by number or by filters. With several filters, a record must pass all of
them. Each change is an event; the log keeps its reason permanently. The drift commands
leave out records that are not live.

The server first reports what it would change. Records that already have the state are
left out, so you can run an interrupted change again to continue it. If no record passes
the filters, the command fails.

With --json, state prints the server's answers, one JSON document per line: the dry run,
then the result with its first receipts.`,
		Example: `  colophon state stale --where source_root=6ab4… --reason 'The source was withdrawn.' --dry-run
  colophon state failed 41 42 --reason 'The GPU was on fire.'
  colophon state live 41 --reason 'It was not.' --original-actor ana --timestamp 2025-11-30T12:00:00Z`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completion.FirstArgumentOnly(completion.FromList(completion.AddPrefix("", record.States[:]))),
		RunE:              func(command *cobra.Command, args []string) error { return s.run(command, args) },
	}
	flags := command.Flags()
	s.server.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &s.ledger)
	flags.StringVar(&s.request.Reason, "reason", "", "`reason` of the change; it stays in the log")
	flags.StringVar(&s.request.OriginalActor, "original-actor", "", "`name` of the person or service that made the change in another system")
	flags.StringVar(&s.request.Timestamp, "timestamp", "", "`time` of the change in another system (RFC 3339)")
	s.choice.bind(flags)
	flags.BoolVar(&s.dryRun, "dry-run", false, "report what state would change, without changing it")
	flags.BoolVar(&s.json, "json", false, "print the server's responses as JSON, one document per line")
	return command
}

func (s *stateCommand) run(command *cobra.Command, args []string) error {
	request := &s.request
	request.State = wire.State(args[0])
	if request.Reason == "" {
		return cli.ExitErrorf(cli.ExitUsage, "--reason is missing: give a reason; it is recorded permanently in the log")
	}
	seqs, filter, err := s.choice.read(command.Flags(), args[1:])
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	request.Seqs = seqs
	for name, value := range filter {
		if request.Filter == nil {
			request.Filter = make(map[string]any)
		}
		request.Filter[name] = value
	}
	server, err := s.server.Connect(s.Console, client.WithTimeout(0)) // no timeout, because a change takes longer the more records it covers
	if err != nil {
		return err
	}
	plan, err := s.send(command, server)
	if err != nil {
		return err
	}
	if !s.json {
		if err := s.printPlan(plan); err != nil {
			return err
		}
	}
	switch {
	case plan.Records+plan.AlreadySet+plan.WithoutState == 0:
		return cli.ExitErrorf(cli.ExitFailed, "no record matches the filters; check them")
	case plan.Records == 0:
		s.PrintErrf("nothing to change")
		return nil
	case s.dryRun:
		return nil
	}
	request.DryRun, request.AsOf = new(false), &plan.AsOf
	done, err := s.send(command, server)
	if err != nil || s.json {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "\nchanged %s\n", cli.FormatCount(done.Records, "record"))
	return err
}

// send sends the request and parses the response. With --json, it also prints the response.
func (s *stateCommand) send(command *cobra.Command, server *remote.Connection) (*wire.StateChangeResult, error) {
	body, err := wire.Marshal(s.request)
	if err != nil {
		return nil, err
	}
	path := remote.LedgerPath(s.ledger) + "/state-changes"
	answer, text, err := remote.DoJSON[wire.StateChangeResult](command.Context(), server, client.Request{Method: http.MethodPost, Path: path, Body: body})
	if err == nil && s.json {
		err = cli.PrintJSONLine(s.Out, text)
	}
	return answer, err
}

func (s *stateCommand) printPlan(plan *wire.StateChangeResult) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "at tree size\t%d\n", plan.AsOf)
	fmt.Fprintf(table, "records to change\t%d%s\n", plan.Records, listed(plan.FirstSeqs, plan.Records))
	fmt.Fprintf(table, "%s already\t%d\n", cli.QuoteCell(string(s.request.State)), plan.AlreadySet)
	fmt.Fprintf(table, "without a state\t%d\n", plan.WithoutState)
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := text.WriteTo(s.Out)
	return err
}

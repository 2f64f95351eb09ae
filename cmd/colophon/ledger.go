package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
)

// ledgerInfo is a ledger as the server describes it.
type ledgerInfo struct {
	Name        string    `json:"name"`
	Origin      string    `json:"origin"`
	VerifierKey string    `json:"verifier_key"`
	Created     time.Time `json:"created"`
	Frozen      bool      `json:"frozen"`
	OnMismatch  string    `json:"on_mismatch"`
	Log         string    `json:"log"`
	TreeSize    uint64    `json:"tree_size"`
}

// ledgerPath is where the API keeps a ledger.
func ledgerPath(name string) string { return "/v1/ledgers/" + url.PathEscape(name) }

// ledgerCommand is what the commands about ledgers share.
type ledgerCommand struct {
	*cli.Console
	server serverOptions
	json   bool
}

func newLedger(c *cli.Console) *cobra.Command {
	l := &ledgerCommand{Console: c}
	command := &cobra.Command{
		Use:     "ledger",
		Short:   "Make, list, publish and freeze the ledgers of a server",
		Example: "  colophon ledger list",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	l.server.bind(c, command.PersistentFlags())
	command.PersistentFlags().BoolVar(&l.json, "json", false, "print the server's answer as JSON")
	command.AddCommand(l.newCreate(), l.newList(), l.newPublish(), l.newUnpublish(), l.newFreeze())
	return command
}

func (l *ledgerCommand) newCreate() *cobra.Command {
	var request struct {
		Name       string `json:"name"`
		Origin     string `json:"origin,omitempty"`
		OnMismatch string `json:"on_mismatch,omitempty"`
	}
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a ledger with a key, a chain and a tree of its own",
		Long: `Make a ledger. Its name has 1 to 64 lower-case letters, digits and hyphens. Its
origin, the name that it signs checkpoints under, never changes: a URL without
scheme under a domain that is yours; the default contains the key's fingerprint.`,
		Example: `  colophon ledger create generations --origin ledger.example.org/generations`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			request.Name = args[0]
			body, err := json.Marshal(request)
			if err != nil {
				return fmt.Errorf("encoding the request: %w", err)
			}
			return l.one(command, http.MethodPost, "/v1/ledgers", body)
		},
	}
	command.Flags().StringVar(&request.Origin, "origin", "", "`name` that the ledger signs under")
	command.Flags().StringVar(&request.OnMismatch, "on-mismatch", "", "`what` to do with a record whose claims do not hold: accept (default) or reject")
	return command
}

func (l *ledgerCommand) newFreeze() *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "freeze NAME",
		Short: "Refuse all writes to a ledger from now on; this cannot be undone",
		Long: `Refuse all writes to a ledger from now on. Reads go on, and its last checkpoint
is final; content cannot be erased any more either, so redact first what must not
stay. This cannot be undone: on a terminal the command asks for the name once
more, elsewhere it wants --yes.`,
		Example: `  colophon ledger freeze generations
  colophon ledger freeze generations --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if !yes {
				if err := l.Confirm(command.Context(), args[0], "freezing a ledger cannot be undone", "frozen"); err != nil {
					return err
				}
			}
			return l.one(command, http.MethodPost, ledgerPath(args[0])+"/freeze", nil)
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return command
}

func (l *ledgerCommand) newList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the ledgers of a server",
		Example: `  colophon ledger list --server http://127.0.0.1:8080`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var list struct {
				Ledgers []ledgerInfo `json:"ledgers"`
			}
			err := l.call(command, http.MethodGet, "/v1/ledgers", nil, &list)
			if err != nil || l.json {
				return err
			}
			return printLedgers(l.Out, list.Ledgers)
		},
	}
}

// one makes a request that answers a ledger, and prints it.
func (l *ledgerCommand) one(command *cobra.Command, method, path string, body []byte) error {
	var info ledgerInfo
	if err := l.call(command, method, path, body, &info); err != nil || l.json {
		return err
	}
	return printLedgers(l.Out, []ledgerInfo{info})
}

// call makes a request and reads the answer; with --json it prints it.
func (l *ledgerCommand) call(command *cobra.Command, method, path string, body []byte, to any) error {
	server, err := newClient(l.Console, l.server)
	if err != nil {
		return err
	}
	answer, err := server.call(command.Context(), method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	if l.json {
		return cli.PrintJSON(l.Out, answer)
	}
	return nil
}

// printLedgers prints a block of lines for each: keys are too long for columns.
func printLedgers(out io.Writer, ledgers []ledgerInfo) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, l := range ledgers {
		if i > 0 {
			fmt.Fprintln(table)
		}
		state := "open"
		if l.Frozen {
			state = "frozen"
		}
		fmt.Fprintf(table, "%s\t%s, %s, mismatches: %s, log: %s\n", l.Name, cli.Counted(l.TreeSize, "event"), state, l.OnMismatch, l.Log)
		fmt.Fprintf(table, "  created\t%s\n", l.Created.UTC().Format(time.RFC3339))
		fmt.Fprintf(table, "  origin\t%s\n", l.Origin)
		fmt.Fprintf(table, "  verifier key\t%s\n", l.VerifierKey)
	}
	return table.Flush()
}

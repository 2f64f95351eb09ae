package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
	"colophon/internal/remote"
)

// ledgerCommand holds the flags that the ledger subcommands share.
type ledgerCommand struct {
	*cli.Console
	server remote.Options
	json   bool
}

func newLedger(c *cli.Console) *cobra.Command {
	l := &ledgerCommand{Console: c}
	command := &cobra.Command{
		Use:     "ledger",
		Short:   "Create, list, publish, configure and freeze the ledgers of a server",
		Example: "  colophon ledger list",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	l.server.Bind(c, command.PersistentFlags())
	command.PersistentFlags().BoolVar(&l.json, "json", false, "print the server's response as JSON")
	command.AddCommand(l.newCreate(), l.newList(), l.newPublish(), l.newUnpublish(), l.newSources(), l.newOTLP(), l.newFreeze())
	return command
}

func (l *ledgerCommand) newCreate() *cobra.Command {
	var request wire.CreateLedgerRequest
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a ledger with its own key, chain and tree",
		Long: `Create a ledger. Its name has 1 to 64 lower-case letters, digits and hyphens. Its origin
is the name in its checkpoints and never changes. Use a URL without a scheme, under a
domain that you own; the default origin contains the fingerprint of the key.`,
		Example: `  colophon ledger create generations --origin ledger.example.org/generations`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			request.Name = args[0]
			return l.change(command, client.Request{Method: http.MethodPost, Path: "/v1/ledgers"}, request)
		},
	}
	command.Flags().StringVar(&request.Origin, "origin", "", "`name` that the ledger signs under")
	command.Flags().StringVar(&request.OnMismatch, "on-mismatch", "", "accept (default) or reject records whose claims do not match their content (`policy`)")
	return command
}

func (l *ledgerCommand) newFreeze() *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "freeze NAME",
		Short: "Refuse all writes to a ledger from now on; this cannot be undone",
		Long: `Refuse all writes to a ledger from now on. You can still read it, and its last
checkpoint is final. Content can no longer be erased, so redact first if you have to.

This cannot be undone. On a terminal, the command asks for the name of the ledger;
elsewhere, it needs --yes.`,
		Example: `  colophon ledger freeze generations
  colophon ledger freeze generations --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.FirstArgumentOnly(completion.LedgerNames(l.Console)),
		RunE: func(command *cobra.Command, args []string) error {
			if !yes {
				if err := l.Confirm(command.Context(), args[0], "freezing a ledger cannot be undone", "frozen"); err != nil {
					return err
				}
			}
			return l.change(command, client.Request{Method: http.MethodPost, Path: remote.LedgerPath(args[0]) + "/freeze"}, nil)
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return command
}

func (l *ledgerCommand) newList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the ledgers of a server",
		Example: `  colophon ledger list --server http://127.0.0.1:8080`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			list, err := fetchLedgers[wire.LedgerList](command, l, client.Request{Path: "/v1/ledgers"})
			if err != nil || l.json {
				return err
			}
			return printLedgers(l.Out, list.Ledgers)
		},
	}
}

// change sends a request whose response is the description of a ledger, and prints it. If body is
// nil, the request has no body.
func (l *ledgerCommand) change(command *cobra.Command, r client.Request, body any) (err error) {
	if body != nil {
		if r.Body, err = wire.Marshal(body); err != nil {
			return err
		}
	}
	description, err := fetchLedgers[wire.LedgerDescription](command, l, r)
	if err != nil || l.json {
		return err
	}
	return printLedgers(l.Out, []wire.LedgerDescription{*description})
}

// fetchLedgers sends a request and parses the response. With --json, it also prints the response.
func fetchLedgers[T any](command *cobra.Command, l *ledgerCommand, r client.Request) (*T, error) {
	server, err := l.server.Connect(l.Console)
	if err != nil {
		return nil, err
	}
	value, text, err := remote.DoJSON[T](command.Context(), server, r)
	if err == nil && l.json {
		err = cli.PrintJSON(l.Out, text)
	}
	return value, err
}

// printLedgers prints a block of lines for each ledger, because keys are too long for table
// columns.
func printLedgers(out io.Writer, ledgers []wire.LedgerDescription) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, l := range ledgers {
		if i > 0 {
			fmt.Fprintln(table)
		}
		state := "open"
		if l.Frozen {
			state = "frozen"
		}
		fmt.Fprintf(table, "%s\t%s, %s, mismatches: %s, log: %s\n", l.Name, cli.FormatCount(l.TreeSize, "event"), state, l.OnMismatch, l.LogVisibility)
		if l.UnregisteredSources == "reject" {
			fmt.Fprintf(table, "  sources\tcitations of unregistered sources are refused\n")
		}
		if l.OTLPContent == "hashes" {
			fmt.Fprintf(table, "  OTLP\tonly the hashes of the received content are kept\n")
		}
		fmt.Fprintf(table, "  created\t%s\n", createdAt(l))
		fmt.Fprintf(table, "  origin\t%s\n", l.Origin)
		fmt.Fprintf(table, "  verifier key\t%s\n", l.VerifierKey)
		fmt.Fprintf(table, "  your scopes\t%s\n", strings.Join(l.Scopes, ", "))
	}
	return table.Flush()
}

// createdAt returns a ledger's creation time, to the second. If the server's value is not a valid
// time, createdAt returns it in quotes.
func createdAt(l wire.LedgerDescription) string {
	created, err := l.Created.Parse()
	if err != nil {
		return cli.QuoteCell(string(l.Created))
	}
	return created.UTC().Format(time.RFC3339)
}

func (l *ledgerCommand) newPublish() *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "publish NAME",
		Short: "Make a ledger's transparency log public",
		Long: `Make a ledger's transparency log public. Anyone who can reach the server can read
checkpoint, key, tiles and entries under /log without a token, also from web pages. This
lets witnesses, monitors and auditors watch the log.

Entries have no content. They have run ids, labels, names of models and sources, and
hashes. A reader can confirm a guess of a short text by its hash. Records, queries and
content still need a token.

Readers keep what they have read; unpublish does not change this. On a terminal, the
command asks for the name of the ledger; elsewhere, it needs --yes.`,
		Example: `  colophon ledger publish generations
  colophon ledger publish generations --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.FirstArgumentOnly(completion.LedgerNames(l.Console)),
		RunE: func(command *cobra.Command, args []string) error {
			if !yes {
				if err := l.Confirm(command.Context(), args[0], "publishing cannot be fully undone, because readers may keep copies", "published"); err != nil {
					return err
				}
			}
			return l.setVisibility(command, args[0], "public")
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return command
}

func (l *ledgerCommand) newUnpublish() *cobra.Command {
	return &cobra.Command{
		Use:   "unpublish NAME",
		Short: "Require a token to read a ledger's transparency log",
		Long: `Require a token with the scope log or read to read a ledger's transparency log. This is
the default for new ledgers. Readers and caches keep the copies of the log that they have.`,
		Example:           `  colophon ledger unpublish generations`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.FirstArgumentOnly(completion.LedgerNames(l.Console)),
		RunE: func(command *cobra.Command, args []string) error {
			return l.setVisibility(command, args[0], "private")
		},
	}
}

func (l *ledgerCommand) newSources() *cobra.Command {
	return &cobra.Command{
		Use:   "sources NAME accept|reject",
		Short: "Accept or reject citations of sources that are not registered",
		Long: `Accept or reject citation sets that cite a source that is not registered. Ledgers accept
them by default. With reject, the server refuses such a set and names the source.`,
		Example: `  colophon ledger sources evaluation reject`,
		Args:    cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			r := client.Request{Method: http.MethodPut, Path: remote.LedgerPath(args[0]) + "/unregistered-sources"}
			return l.change(command, r, wire.UnregisteredSourcesChange{UnregisteredSources: args[1]})
		},
	}
}

func (l *ledgerCommand) newOTLP() *cobra.Command {
	return &cobra.Command{
		Use:   "otlp NAME keep|hashes",
		Short: "Keep the content of generations that arrive by OTLP, or only its hashes",
		Long: `Keep the prompts and outputs of generations that arrive by OTLP, or only their hashes.
By default, ledgers keep all content that the sender includes. With hashes, the server
computes the hashes and drops the texts; a reader can confirm a guess of a short text.
Content that is already in the ledger stays; colophon redact erases it.`,
		Example:           `  colophon ledger otlp default hashes`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completion.FirstArgumentOnly(completion.LedgerNames(l.Console)),
		RunE: func(command *cobra.Command, args []string) error {
			r := client.Request{Method: http.MethodPut, Path: remote.LedgerPath(args[0]) + "/otlp-content"}
			return l.change(command, r, wire.OTLPContentChange{OTLPContent: args[1]})
		},
	}
}

// setVisibility makes a ledger's log "public" or "private".
func (l *ledgerCommand) setVisibility(command *cobra.Command, name, log string) error {
	r := client.Request{Method: http.MethodPut, Path: remote.LedgerPath(name) + "/visibility"}
	return l.change(command, r, wire.VisibilityChange{LogVisibility: log})
}

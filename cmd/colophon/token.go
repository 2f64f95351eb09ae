package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/storage/postgres"
)

// tokenCommand holds the flags that the token subcommands share.
type tokenCommand struct {
	*cli.Console
	data string
	url  storeFlag
}

// tokenStore is an open token store, which is either in a data folder or in a database.
type tokenStore struct {
	access.TokenStore
	database *postgres.Database // nil if the tokens are in the data folder
}

// withStore opens the token store, calls f, and closes the store.
func (t *tokenCommand) withStore(command *cobra.Command, f func(tokenStore) error) (err error) {
	store := tokenStore{TokenStore: access.TokenStore{Dir: datadir.TokenFolder(t.data), Now: time.Now}}
	url := t.url.value(t.Console, command)
	if url == "" {
		if datadir.HasExternalStore(t.data) {
			return datadir.ExternalStoreError(t.data)
		}
		return f(store)
	}
	database, err := postgres.Open(command.Context(), postgres.Config{URL: url, Logger: t.WarningLogger()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	store.database, store.SharedStore = database, database
	return f(store)
}

// place returns the name of the token store for use in messages: the address of its database or the
// path of the data folder.
func (t *tokenCommand) place(store tokenStore) string {
	if store.database != nil {
		return store.database.Address()
	}
	return t.data
}

// ledgers returns the names of the ledgers that a token can give access to.
func (t *tokenCommand) ledgers(ctx context.Context, store tokenStore) ([]string, error) {
	if store.database == nil {
		return datadir.LedgersWithKeys(t.data)
	}
	infos, err := store.database.Ledgers(ctx)
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names, err
}

func newToken(c *cli.Console) *cobra.Command {
	t := &tokenCommand{Console: c}
	command := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the API tokens of a data folder",
		Long: `Create, list and revoke the tokens with which clients authenticate. The data folder
keeps their hashes. A running server applies every change from the next request on. Once
a token exists, every request under /v1 needs one, or other credentials that the file of
serve --access-file allows.

With --store, the tokens are in the PostgreSQL database, and all its servers apply every
change within a second. If a server cannot reach the database for 5 seconds, it answers
503 to every token.`,
		Example: `  colophon token create --name pipeline --scope write
  colophon token list
  colophon token revoke pipeline`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.PersistentFlags().StringVar(&t.data, "data", c.EnvOr("COLOPHON_DATA", "data"), "`folder` with the database and the keys, or COLOPHON_DATA")
	t.url.bind(command.PersistentFlags(), "tokens")
	command.AddCommand(t.newCreate(), t.newList(), t.newRevoke())
	return command
}

func (t *tokenCommand) newCreate() *cobra.Command {
	var name, expires string
	var scopes, ledgers []string
	command := &cobra.Command{
		Use:   "create",
		Short: "Create a token and print it once",
		Long: `Create a token and print it to the standard output, once: the data folder keeps only its
hash. Clients send it as "Authorization: Bearer colophon_...". Its name is the actor of
the events that it writes. After the token is revoked, its name can be used again.

These are the scopes; read includes log, and otherwise no scope includes another:
  write    post records, change states, validate paths, register sources
  read     records, runs, queries, counters
  content  the texts themselves: prompts, outputs, documents
  log      events, proofs, receipts, the transparency log
  admin    freeze and publish a ledger, erase content; on all ledgers, create one
  metrics  /metrics, which names all ledgers: only with --ledger '*'`,
		Example: `  colophon token create --name pipeline --scope write --ledger generations
  colophon token create --name auditor --scope log --ledger '*' --expires 90d
  colophon token create --name prometheus --scope metrics --ledger '*' > prometheus.token`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			now := time.Now()
			expiry, err := parseExpiry(expires, now)
			if err != nil {
				return cli.ExitErrorf(cli.ExitUsage, "--expires: %w", err)
			}
			granted, err := access.ParseScopes(scopes...)
			if err != nil {
				return cli.ExitErrorf(cli.ExitUsage, "--scope: %w", err)
			}
			request := access.TokenSpec{Name: name, Grants: []access.Grant{{Ledgers: ledgers, Scopes: granted}}, Expires: expiry}
			if err := request.Check(now); err != nil {
				return cli.ExitErrorf(cli.ExitUsage, "%w", err)
			}
			if granted&access.ScopeMetrics != 0 && !slices.Contains(ledgers, access.AllLedgers) {
				return cli.ExitErrorf(cli.ExitUsage, `--scope: the scope "metrics" requires --ledger '*', because the metrics include the names of all ledgers`)
			}
			return t.withStore(command, func(store tokenStore) error { return t.create(command.Context(), store, request) })
		},
	}
	command.Flags().StringVar(&name, "name", "", "`name` of the token's user: lower-case letters, digits, dots, underscores, and hyphens")
	command.Flags().StringSliceVar(&scopes, "scope", nil, "`scopes`, separated by commas or in several flags: "+strings.ReplaceAll(access.AllScopes.String(), ",", ", "))
	command.Flags().StringSliceVar(&ledgers, "ledger", []string{ledger.DefaultName}, "`ledgers` for which the token is valid, separated by commas or in several flags; '*' for all, including new ones")
	command.Flags().StringVar(&expires, "expires", "", "`time` at which the token expires: 90d or 12h from now, or a time such as 2030-01-31T12:00:00Z; the default is never")
	return command
}

// create creates a token. It prints only the token to standard output, so that the output can be
// redirected to a file or a secret store.
func (t *tokenCommand) create(ctx context.Context, store tokenStore, request access.TokenSpec) error {
	_, missing := os.Stat(t.data)
	made, err := store.Create(request)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(t.Out, made.Text); err != nil {
		return fmt.Errorf("the token was created, but printing it failed: %w\nTo revoke the token, run %q", err, "colophon token revoke "+made.ID)
	}
	grant, ends := made.Grants[0], "does not expire"
	if !made.Expires.IsZero() {
		ends = "expires " + shortTime(made.Expires)
	}
	fmt.Fprintf(t.Err, "Token %q (id %s) grants %s on %s; it %s.\n", made.Name, made.ID, grant.Scopes, ledgerList(grant), ends)
	fmt.Fprintln(t.Err, "Store the token now: it cannot be shown again, because only its hash is kept.")
	if made.IsFirst {
		fmt.Fprintf(t.Err, "This is the first token of %s. From now on, every request to its ledgers needs a token.\n", t.place(store))
	}
	t.warnUnknown(ctx, store, made.Grants[0], missing != nil)
	return nil
}

// warnUnknown warns about names that the user might have mistyped. It prints a warning if the
// command has just created the data folder (made is true), if the folder contains no ledgers, or if
// the token names unknown ledgers.
func (t *tokenCommand) warnUnknown(ctx context.Context, store tokenStore, grant access.Grant, made bool) {
	names, err := t.ledgers(ctx, store)
	_, noDatabase := os.Stat(datadir.DatabaseFolder(t.data))
	switch {
	case store.database != nil && err == nil:
	case made && store.database == nil:
		t.PrintErrf("created a new data folder %s; if a server is already running, name its folder with --data", datadir.ResolveSymlinks(t.data))
	case err != nil:
		return
	case len(names) == 0 && noDatabase != nil:
		t.PrintErrf("%s has no ledger yet; if a server is already running, name its folder with --data", datadir.ResolveSymlinks(t.data))
	}
	for _, name := range grant.Ledgers {
		if name != access.AllLedgers && name != ledger.DefaultName && !slices.Contains(names, name) {
			t.PrintErrf("ledger %q does not exist yet", name)
		}
	}
}

// maxExpiryDays is the largest number of days that parseExpiry accepts, about 100 years.
const maxExpiryDays = 36500

// parseExpiry parses a time in RFC 3339 format or a duration relative to now. It returns the zero
// time if text is empty.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if count, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseUint(count, 10, 16); err == nil && days > 0 && days <= maxExpiryDays {
			return now.Add(time.Duration(days) * 24 * time.Hour), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration such as 90d or 12h nor a time such as 2030-01-31T12:00:00Z", text)
}

func (t *tokenCommand) newList() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List the tokens with their scopes and their last use",
		Long: `List the tokens, including revoked and expired ones. A running server updates the time
of last use once a minute.`,
		Example: `  colophon token list
  colophon token list --json | jq -r '.tokens[] | select(.last_use == null) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return t.withStore(command, func(store tokenStore) error {
				list, err := store.List()
				if err != nil {
					return err
				}
				if asJSON {
					return t.printJSON(list)
				}
				if len(list) == 0 {
					t.PrintErrf("%s has no tokens, so the server does not require tokens", t.place(store))
				}
				return t.printTable(list)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

// shownToken is a token as token list --json prints it.
type shownToken struct {
	Name    string         `json:"name"`
	ID      string         `json:"id"`
	State   string         `json:"state"` // "active", "expired", or "revoked"
	Grants  []access.Grant `json:"grants"`
	Created time.Time      `json:"created"`
	Expires time.Time      `json:"expires,omitzero"`
	Revoked time.Time      `json:"revoked,omitzero"`
	LastUse time.Time      `json:"last_use,omitzero"`
}

func (t *tokenCommand) printJSON(list []access.ListedToken) error {
	shown := struct {
		Tokens []shownToken `json:"tokens"`
	}{[]shownToken{}}
	for _, l := range list {
		shown.Tokens = append(shown.Tokens, shownToken{
			Name: l.Name, ID: l.ID, State: l.State(time.Now()), Grants: l.Grants,
			Created: l.CreatedAt, Expires: l.Expires, Revoked: l.RevokedAt, LastUse: l.LastUse,
		})
	}
	text, err := json.Marshal(shown)
	return errors.Join(err, cli.PrintJSON(t.Out, text))
}

func (t *tokenCommand) printTable(list []access.ListedToken) error {
	var rows [][]string
	for _, l := range list {
		var scopes, ledgers []string
		for _, g := range l.Grants {
			scopes, ledgers = append(scopes, g.Scopes.String()), append(ledgers, ledgerList(g))
		}
		rows = append(rows, []string{
			l.Name, l.ID, strings.Join(scopes, "; "), strings.Join(ledgers, "; "),
			shortTime(l.CreatedAt), shortTime(l.Expires), shortTime(l.LastUse), l.State(time.Now()),
		})
	}
	return cli.NewTable(t.Out, cli.TextColumn("name"), cli.TextColumn("id"), cli.TextColumn("scopes"), cli.TextColumn("ledgers"),
		cli.TextColumn("created"), cli.TextColumn("expires"), cli.TextColumn("last use"), cli.TextColumn("state")).WriteRows(rows)
}

// shortTime formats a time to the second. It formats the zero time as cli.NoValueCell.
func shortTime(at time.Time) string {
	if at.IsZero() {
		return cli.NoValueCell
	}
	return at.UTC().Format(time.RFC3339)
}

func ledgerList(g access.Grant) string { return strings.Join(g.Ledgers, ",") }

func (t *tokenCommand) newRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME|ID",
		Short: "Revoke a token at once; this cannot be undone",
		Long: `Revoke the token with this name or id. A running server refuses the token from the next
request on; with --store, every server refuses it within a second. The token stays in the
list, and its name stays in the events that were written with it.`,
		Example: `  colophon token revoke pipeline`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			var revoked access.Token
			err := t.withStore(command, func(store tokenStore) (err error) {
				revoked, err = store.Revoke(args[0])
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(t.Out, "Token %q (id %s) was revoked at %s\n", revoked.Name, revoked.ID, shortTime(revoked.RevokedAt))
			return err
		},
	}
}

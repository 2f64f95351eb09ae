package main

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/show"
)

// followCursor sets the parameter name of a query to the cursor of the next page. The error says that
// the cursors form a cycle.
func followCursor(trail *client.CursorTrail, query url.Values, name, cursor string) error {
	if trail.Repeats(cursor) {
		return errors.New("the server's answer is malformed: the cursors of its pages form a cycle")
	}
	query.Set(name, cursor)
	return nil
}

// list fetches the rows of a query and prints them as a table: the first page that has rows, or
// with --all every page. If there are no rows, it prints the message empty, unless that is "".
func list[R any](d *driftCommand, command *cobra.Command, path string, query url.Values, t *cli.Table, empty string, cells func(R) []string) error {
	for trail := new(client.CursorTrail); ; {
		p, answer, err := fetchDrift[wire.Page[R]](d, command, path, query)
		if err != nil {
			return err
		}
		done, err := printPage(d, t, p.Rows, p.Next, answer, cells)
		if err != nil {
			return err
		}
		if done {
			d.conclude(t, p.Next, empty)
			return nil
		}
		if err := followCursor(trail, query, "cursor", p.Next); err != nil {
			return err
		}
		query.Del("as_of") // the cursor has it
	}
}

// printPage prints a page or, with --json, the answer that contains it. done reports whether no
// more pages are needed. printPage skips an empty page if another follows.
func printPage[R any](d *driftCommand, t *cli.Table, page []R, next string, answer []byte, cells func(R) []string) (done bool, err error) {
	if len(page) == 0 && next != "" {
		return false, nil
	}
	done = next == "" || !d.all
	if d.json {
		t.Rows += len(page)
		return done, cli.PrintJSONLine(d.Out, answer)
	}
	rows := make([][]string, len(page))
	for i, r := range page {
		rows[i] = cells(r)
	}
	return done, t.Write(rows)
}

// conclude says that there are more rows, or no rows. next is the cursor after the last printed
// page.
func (d *driftCommand) conclude(t *cli.Table, next, empty string) {
	switch {
	case d.json:
	case next != "":
		d.Say("there may be more rows: --all prints them")
	case t.Rows == 0 && empty != "":
		d.Say("%s", empty)
	}
}

// fetchDrift returns the answer of a query of the ledger, parsed and as the server sent it.
func fetchDrift[T any](d *driftCommand, command *cobra.Command, path string, query url.Values) (*T, []byte, error) {
	if err := d.connect(); err != nil {
		return nil, nil, err
	}
	return remote.Ask[T](command.Context(), d.server, client.Request{Path: remote.LedgerPath(d.ledger) + path, Query: query})
}

// connect makes the client unless it exists.
func (d *driftCommand) connect() (err error) {
	if d.server == nil {
		d.server, err = d.from.Connect(d.Console)
	}
	return err
}

// texts returns what reads texts. The client exists.
func (d *driftCommand) texts() *show.Texts {
	if d.words == nil {
		d.words = &show.Texts{Server: d.server, Ledger: d.ledger}
	}
	return d.words
}

// hash returns a hash as a table cell. Without --full the cell has the first 12 digits.
func (d *driftCommand) hash(hash string) string { return show.Hash(hash, d.full) }

func (d *driftCommand) hashOr(hash *string) string {
	if hash == nil {
		return cli.None
	}
	return d.hash(*hash)
}

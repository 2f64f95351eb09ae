package main

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
)

// cursorTrail notices that the cursors of a list lead round in a circle, where a server answers pages without rows
// for ever. It remembers one cursor, at distances that double (Brent's algorithm).
type cursorTrail struct {
	mark            string
	steps, distance int
}

// follow sets the parameter name of a query to the cursor of the next page.
func (t *cursorTrail) follow(query url.Values, name, cursor string) error {
	if cursor == t.mark {
		return errors.New("the answer is malformed: its pages lead round in a circle")
	}
	if t.steps++; t.steps >= t.distance {
		t.mark, t.steps, t.distance = cursor, 0, max(1, 2*t.distance)
	}
	query.Set(name, cursor)
	return nil
}

// list asks a query of many rows and prints them as a table: the first page that has
// any, or all of them. empty is what there is to say where there are none; "" is
// nothing.
func list[R any](d *driftCommand, command *cobra.Command, path string, query url.Values, t *cli.Table, empty string, cells func(R) []string) error {
	for trail := new(cursorTrail); ; {
		p, answer, err := askDrift[wire.Page[R]](d, command, path, query)
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
		if err := trail.follow(query, "cursor", p.Next); err != nil {
			return err
		}
		query.Del("as_of") // the cursor has it
	}
}

// printPage prints a page, with --json the answer that it is from, and reports
// whether it is the last one that is wanted. A page that is empty and yet not the
// last is passed over.
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

// conclude says what a table does not. next is the cursor behind its last page.
func (d *driftCommand) conclude(t *cli.Table, next, empty string) {
	switch {
	case d.json:
	case next != "":
		d.Say("there may be more rows: --all prints them")
	case t.Rows == 0 && empty != "":
		d.Say("%s", empty)
	}
}

// askDrift asks a query of the ledger, reads the answer and returns it as it came.
func askDrift[T any](d *driftCommand, command *cobra.Command, path string, query url.Values) (*T, []byte, error) {
	if err := d.connect(); err != nil {
		return nil, nil, err
	}
	return remote.Ask[T](command.Context(), d.server, client.Request{Path: remote.LedgerPath(d.ledger) + path, Query: query})
}

// connect makes the client, once for all pages.
func (d *driftCommand) connect() (err error) {
	if d.server == nil {
		d.server, err = d.from.Connect(d.Console)
	}
	return err
}

// hash is a hash as a cell: without --full by its first digits, enough to tell it
// from others by eye.
func (d *driftCommand) hash(hash string) string {
	const digits = 12
	if d.full || len(hash) <= digits {
		return cli.Plain(hash)
	}
	return cli.Plain(hash[:digits]) + "…"
}

func (d *driftCommand) hashOr(hash *string) string {
	if hash == nil {
		return cli.None
	}
	return d.hash(*hash)
}

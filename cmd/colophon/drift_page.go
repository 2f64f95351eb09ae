package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
)

// page is the part that all lists have of the server's answer.
type page[R any] struct {
	Rows []R    `json:"rows"`
	Next string `json:"next"`
}

// list asks a query of many rows and prints them as a table: the first page that has
// any, or all of them. empty is what there is to say where there are none; "" is
// nothing.
func list[R any](d *driftCommand, command *cobra.Command, path string, query url.Values, t *cli.Table, empty string, cells func(R) []string) error {
	for {
		var p page[R]
		answer, err := d.ask(command, path, query, &p)
		if err != nil {
			return err
		}
		done, err := printPage(d, t, p, answer, cells)
		if err != nil {
			return err
		}
		if done {
			d.conclude(t, p.Next, empty)
			return nil
		}
		query.Set("cursor", p.Next)
		query.Del("as_of") // the cursor has it
	}
}

// printPage prints a page, with --json the answer that it is from, and reports
// whether it is the last one that is wanted. A page that is empty and yet not the
// last is passed over.
func printPage[R any](d *driftCommand, t *cli.Table, p page[R], answer []byte, cells func(R) []string) (done bool, err error) {
	if len(p.Rows) == 0 && p.Next != "" {
		return false, nil
	}
	done = p.Next == "" || !d.all
	if d.json {
		t.Rows += len(p.Rows)
		return done, printLine(d.Out, answer)
	}
	rows := make([][]string, len(p.Rows))
	for i, r := range p.Rows {
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

// ask asks a query of the ledger, reads the answer and returns it as it came.
func (d *driftCommand) ask(command *cobra.Command, path string, query url.Values, to any) ([]byte, error) {
	if err := d.connect(); err != nil {
		return nil, err
	}
	path = ledgerPath(d.ledger) + path
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	answer, err := d.client.call(command.Context(), http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	return answer, nil
}

// connect makes the client, once for all pages.
func (d *driftCommand) connect() (err error) {
	if d.client == nil {
		d.client, err = newClient(d.Console, d.server)
	}
	return err
}

// printLine prints a JSON value as one line.
func printLine(out io.Writer, value []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, value); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	line.WriteByte('\n')
	_, err := line.WriteTo(out)
	return err
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// page is the part that all lists have of the server's answer.
type page[R any] struct {
	Rows []R    `json:"rows"`
	Next string `json:"next"`
}

// list asks a query of many rows and prints them as a table: the first page, or all
// of them. empty is what there is to say where there are none.
func list[R any](d *driftCommand, command *cobra.Command, path string, query url.Values, t *table, empty string, cells func(R) []string) error {
	for {
		var p page[R]
		if err := d.get(command, path, query, &p); err != nil {
			return err
		}
		done, err := printPage(d, t, p, cells)
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

// printPage prints a page, unless the answer was printed as JSON, and reports
// whether it is the last one that is wanted.
func printPage[R any](d *driftCommand, t *table, p page[R], cells func(R) []string) (done bool, err error) {
	rows := make([][]string, len(p.Rows))
	for i, r := range p.Rows {
		rows[i] = cells(r)
	}
	if d.json {
		return p.Next == "" || !d.all, nil
	}
	if err := t.write(rows); err != nil {
		return false, err
	}
	// A page may be empty and yet not the last.
	return p.Next == "" || !d.all && t.rows > 0, nil
}

// conclude says what a table does not. next is the cursor behind its last page.
func (d *driftCommand) conclude(t *table, next, empty string) {
	switch {
	case d.json:
	case next != "":
		d.say("there are more rows: --all prints them")
	case t.rows == 0:
		d.say("%s", empty)
	}
}

// get asks a query of the ledger and reads the answer; with --json it prints it.
func (d *driftCommand) get(command *cobra.Command, path string, query url.Values, to any) error {
	answer, err := d.ask(command, path, query, to)
	if err != nil || !d.json {
		return err
	}
	return printJSON(d.out, answer)
}

// ask is get without printing.
func (d *driftCommand) ask(command *cobra.Command, path string, query url.Values, to any) ([]byte, error) {
	server, err := newClient(d.server)
	if err != nil {
		return nil, err
	}
	path = ledgerPath(d.ledger) + path
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	answer, err := server.call(command.Context(), http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	return answer, nil
}
